#!/usr/bin/env python3
"""Draws the pictures of the docs as SVG, by the standard library alone:

    python3 docs/pictures/draw.py [DIR]

The text here is the source; the .svg files next to it are made from it and committed. With DIR they are
written there: make lint compares.
"""
import sys
from html import escape
from pathlib import Path

INK, SOFT, LINE = "#1f2933", "#52606d", "#9aa5b1"
BLUE, GREEN, RED, SAND, GREY = "#dbeafe", "#d9f2e3", "#b91c1c", "#fdf1d8", "#f1f4f8"


class Picture:
    """A picture is a list of SVG elements and a size."""

    def __init__(self, width, height, title):
        self.size, self.title, self.parts = (width, height), title, []

    def box(self, x, y, w, h, fill="#ffffff", label="", sub="", dash=False, top=False, mono=False):
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{LINE}"{style}/>')
        lines = ([label] if label else []) + (sub.split("\n") if sub else [])
        first = y + 18 if top else y + h / 2 - 8 * (len(lines) - 1) + 4
        for i, line in enumerate(lines):
            head = i == 0 and label
            if top:
                self.text(x + 10, first + 16 * i, line, bold=head, soft=not head, mono=mono and head)
            else:
                self.text(x + w / 2, first + 16 * i, line, "middle", bold=head, soft=not head, mono=mono and head)

    def text(self, x, y, s, anchor="start", bold=False, soft=False, colour="", mono=False, size=13):
        fill = colour or (SOFT if soft else INK)
        family = ' font-family="ui-monospace, Menlo, Consolas, monospace"' if mono else ""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{weight}{family}>{escape(s)}</text>')

    def line(self, *points, colour=INK, arrow=True, dash=False, width=1.5):
        d = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        head = f' marker-end="url(#{"red" if colour == RED else "ink"})"' if arrow else ""
        style = ' stroke-dasharray="5 4"' if dash else ""
        self.parts.append(f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="{width}"{style}{head}/>')

    def save(self, name):
        w, h = self.size
        marks = "".join(f'<marker id="{i}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                        f'<path d="M0 0 L8 4 L0 8 z" fill="{c}"/></marker>' for i, c in (("ink", INK), ("red", RED)))
        body = "\n".join(self.parts)
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
        (folder / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
            f'font-family="system-ui, Helvetica, Arial, sans-serif">\n<title>{escape(self.title)}</title>\n<defs>{marks}</defs>\n'
            f'<rect width="{w}" height="{h}" fill="#ffffff"/>\n{body}\n</svg>\n')


def lab():
    p = Picture(820, 400, "The parts of a lab: an underlay, two hosts, and pods on two networks")
    p.box(20, 16, 780, 48, GREY, "underlay", "namespace pw-LAB-u: a bridge in the place of the wire")
    for i, x in enumerate((20, 420)):
        h = i + 1
        p.box(x, 100, 380, 290, "#ffffff", dash=True)
        p.text(x + 10, 120, f"host h{h}", bold=True)
        p.text(x + 10, 378, f"namespace pw-LAB-h{h}", soft=True)
        p.line((x + 190, 64), (x + 190, 134), arrow=False, width=2)
        p.text(x + 198, 86, "uplink", soft=True)
        p.line((x + 100, 150), (x + 100, 134), (x + 280, 134), (x + 280, 150), arrow=False)
        p.box(x + 20, 150, 160, 44, BLUE, "vxlan", "the default network")
        p.box(x + 200, 150, 160, 44, GREEN, "macvlan", "a further network")
        p.line((x + 76, 194), (x + 76, 236), arrow=False)
        p.line((x + 230, 194), (x + 230, 214), (x + 190, 214), (x + 190, 236), arrow=False)
        p.line((x + 150, 194), (x + 150, 206), (x + 290, 206), (x + 290, 236), arrow=False, dash=True)
        p.line((x + 330, 194), (x + 330, 236), arrow=False, dash=True)
        p.box(x + 20, 224, 226, 134, SAND)
        p.box(x + 28, 236, 100, 40, BLUE, "eth0", "stable address")
        p.box(x + 136, 236, 102, 40, GREEN, "net1", "path's address")
        p.text(x + 133, 304, f"pod p{h}", "middle", bold=True)
        p.text(x + 133, 322, "a namespace of its own:", "middle", soft=True)
        p.text(x + 133, 338, "the workload runs here", "middle", soft=True)
        p.box(x + 254, 236, 118, 122, "#ffffff", f"pod agent-h{h}", "on all networks:\nthe agent's\nprobes")
    p.save("lab.svg")


def packet():
    p = Picture(820, 492, "The way of a steered packet from pod p1 to pod p2, and back to the stable addresses")
    for x, name in ((20, "pod p1 (owns the flow)"), (470, "pod p2")):
        p.box(x, 16, 330, 438, "#ffffff", name, top=True, dash=True)
    p.box(60, 48, 250, 34, SAND, "application, TCP/IP", "")
    p.box(510, 48, 250, 34, SAND, "application, TCP/IP", "")
    p.box(60, 124, 250, 158, GREY, "pw_egress", "last program on the way out of eth0", top=True, mono=True)
    for i, s in enumerate(("1  Is the address that of a peer?", "2  Which flow, is it admitted?", "3  Bucket of the flow: which path?",
                           "4  Rewrite both addresses, mark", "5  Redirect to the path's interface")):
        p.text(74, 182 + 20 * i, s)
    p.box(510, 124, 250, 158, GREY, "pw_path_ingress", "first program on the way in at net1", top=True, mono=True)
    for i, s in enumerate(("1  Marked, with the right tag?", "2  Is the flow admitted?", "3  Rewrite the stable addresses back",
                           "4  Put the application's DSCP back", "5  Hand it to the stack as from eth0")):
        p.text(520, 182 + 20 * i, s)
    p.line((185, 82), (185, 124))
    p.text(195, 108, "stable addresses", soft=True)
    p.line((635, 124), (635, 82))
    p.text(645, 108, "stable addresses", soft=True)
    p.box(60, 318, 110, 40, BLUE, "eth0", "vxlan")
    p.box(200, 318, 110, 40, GREEN, "net1", "macvlan")
    p.box(650, 318, 110, 40, BLUE, "eth0", "vxlan")
    p.box(510, 318, 110, 40, GREEN, "net1", "macvlan")
    p.line((115, 282), (115, 318))
    p.text(66, 305, "other", soft=True)
    p.line((255, 282), (255, 318))
    p.text(262, 305, "steered", soft=True)
    p.line((565, 318), (565, 282))
    p.line((705, 318), (705, 298), (780, 298), (780, 65), (762, 65))
    p.text(714, 314, "pw_ingress", bold=True, mono=True)
    p.line((255, 358), (255, 386), (565, 386), (565, 358), colour=INK, width=2)
    p.text(410, 379, "macvlan: path's addresses, mark", "middle", soft=True)
    p.line((115, 358), (115, 424), (705, 424), (705, 358), dash=True)
    p.text(410, 418, "vxlan: handshakes, whatever is not steered, everything without an agent", "middle", soft=True)
    p.text(410, 478, "A switch writes one byte of a bucket, in memory that agent and kernel share.", "middle")
    p.save("packet.svg")


def failure():
    p = Picture(820, 390, "The time line of a failure: silence, suspicion, questions, verdict, move")
    left, right, scale = 170, 790, 30.0

    def at(ms):
        return left + ms * scale

    p.text(20, 62, "traffic", bold=True)
    p.text(20, 122, "path in use", bold=True)
    p.text(20, 138, "pair's echoes", soft=True)
    p.text(20, 182, "path in use", bold=True)
    p.text(20, 198, "hosts' probes", soft=True)
    p.text(20, 242, "other paths", bold=True)
    p.text(20, 258, "the same questions", soft=True)
    p.box(at(0), 40, 15 * scale, 36, "#fbe4e4", "", "nothing comes back")
    p.box(at(15), 40, right - at(15), 36, GREEN, "", "other path")
    p.box(left - 44, 40, 44, 36, BLUE, "", "ok")
    for ms in (6, 8, 10):
        p.line((at(ms), 112), (at(ms) + 16, 128), colour=RED)
        p.text(at(ms) + 19, 135, "×", colour=RED, bold=True)
    for ms in (8, 10, 12):
        p.line((at(ms), 172), (at(ms) + 16, 188), colour=RED)
        p.text(at(ms) + 19, 195, "×", colour=RED, bold=True)
    for ms in (6, 8, 10, 12):
        p.line((at(ms), 232), (at(ms) + 9, 250), (at(ms) + 18, 233))
    axis = 300
    p.line((left - 44, axis), (right, axis))
    for ms in range(0, 21, 2):
        p.line((at(ms), axis - 4), (at(ms), axis + 4), arrow=False)
        p.text(at(ms), axis + 19, str(ms), "middle", soft=True)
    p.text(right, axis + 38, "milliseconds after the first packet without an answer", "end", soft=True)
    for ms, s in ((0, "all is dropped"), (6, "suspect: ask"), (12, "three overdue"), (15, "failed: flows move")):
        p.line((at(ms), 30), (at(ms), axis), dash=True, arrow=False, colour=LINE)
        p.text(at(ms) + (4 if ms == 15 else 0), 22, s, "start" if ms == 15 else "middle", bold=ms in (6, 15))
    p.text(20, 372, "Without the agent, TCP would notice after 200 ms or more: ten times the width of this picture.", soft=True)
    p.save("failure.svg")


def agent():
    p = Picture(820, 400, "The agent's loop: watch, gather evidence, decide, steer, and look what it brought")
    p.box(20, 24, 240, 70, BLUE, "data plane", "counters of packets and silence,\nread every 3 to 10 ms")
    p.box(290, 24, 240, 70, BLUE, "probes", "STAMP between hosts,\nechoes of pairs")
    p.box(560, 24, 240, 70, BLUE, "telemetry", "sockets of real connections,\nten times a second")
    p.box(20, 150, 240, 60, "#fbe4e4", "failure detector", "silence, then proof by other paths")
    p.box(290, 150, 510, 60, GREY, "evidence", "all that is known of a pair, every 100 ms; recorded for replay")
    p.box(290, 244, 510, 60, SAND, "decide", "a pure fold: no clock, no I/O; failure at once, gain only if it pays")
    p.box(290, 338, 240, 46, GREEN, "steer", "write buckets, routes, leases")
    p.box(560, 338, 240, 46, GREEN, "outcome", "a second later: what it brought")
    p.line((140, 94), (140, 150))
    p.line((360, 94), (260, 158))
    p.line((230, 94), (320, 150))
    p.line((430, 94), (430, 150))
    p.line((680, 94), (680, 150))
    p.line((260, 180), (290, 180), colour=RED)
    p.line((545, 210), (545, 244))
    p.line((410, 304), (410, 338))
    p.line((530, 361), (560, 361))
    p.line((680, 338), (680, 304))
    p.text(690, 326, "cost of a switch", soft=True)
    p.line((290, 361), (8, 361), (8, 59), (20, 59))
    p.text(20, 354, "maps, shared with the kernel", soft=True)
    p.text(20, 230, "A failure moves flows in some 15 ms,", soft=True)
    p.text(20, 246, "without waiting for the next evidence.", soft=True)
    p.save("agent.svg")


def layers():
    p = Picture(820, 470, "Five floors: commands over steer over measure over explain over the lab")
    p.box(20, 20, 780, 44, SAND, "cmd/pathwise", "commands, flags, output", mono=True)
    p.box(20, 88, 780, 66, GREEN, "steer/", "agent: the loop on one host; decide: evidence to decision; dataplane: eBPF in the pod\n"
          "probe, telemetry: what is known; route, flow, conntrack, kick; kube, sandbox: clusters; drill, stream: faults, judged", mono=True)
    p.box(20, 178, 780, 66, BLUE, "measure/", "campaign, bench: trials; workload/: generators; experiment, paper: the plan; machine, result\n"
          "rank, claim, application: answers; figure; report: text to HTML", mono=True)
    p.box(20, 268, 780, 50, BLUE, "explain/", "stacks to stages, what bounds a network; cost, profile, limit: what they are told by", mono=True)
    p.box(20, 342, 780, 50, GREY, "lab/", "hosts, networks, pods; network/: the catalogue; vm, guest; oci, cni; impair; netns, sockdiag", mono=True)
    p.box(20, 416, 780, 40, "#ffffff", "", "the words of all: topo, sample, stat, config, pipeline (what an Open vSwitch bridge does)", dash=True)
    for y in (64, 154, 244, 318, 392):
        p.line((410, y), (410, y + 24), arrow=True)
    p.save("layers.svg")


for draw in (lab, packet, failure, agent, layers):
    draw()
