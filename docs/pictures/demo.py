#!/usr/bin/env python3
"""Measures what demo.svg shows, into demo.json: as root, on an idle machine, with
bin/ in PATH. Afterwards draw.py draws it.

    python3 docs/pictures/demo.py "note with date and machine"
"""
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

here = Path(__file__).parent


def run(*args, **more):
    return subprocess.run(args, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def ranking(dir):
    """Requests a second of the tutorial's experiment, with the report's intervals."""
    text = (here.parent / "tutorial/first-ranking.md").read_text()
    (dir / "first.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.S)[1].replace("repetitions: 3", "repetitions: 8"))
    run("pathwise", "bench", "-f", str(dir / "first.yaml"), "--out", str(dir / "out"))
    report = json.loads(run("pathwise", "report", str(dir / "out"), "-o", "json"))
    return report


def failover(dir, every=2):
    """Round trips around a cut, and when it was."""
    run("pathwise", "lab", "up", "--network", "vxlan,macvlan", "--name", "demo")
    agents = subprocess.Popen(["pathwise", "agent", "--lab", "demo"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        log = open(dir / "ping", "w")
        ping = subprocess.Popen(["pathwise", "lab", "exec", "--lab", "demo", "p1", "--", "ping", "-D", "-i", str(every / 1000), "-w", "8", "10.77.2.1"], stdout=log)
        time.sleep(4)
        used = next(p["network"] for p in json.loads(run("pathwise", "paths", "--lab", "demo", "-o", "json")) if p.get("active") and p["pair"].startswith("p1>"))
        before = time.time()
        run("pathwise", "lab", "impair", "--lab", "demo", "h1", used, "--drop", "both")
        after = time.time()
        ping.wait()
        print("cut between", before, after, run("pathwise", "events", "--lab", "demo"), file=sys.stderr)
    finally:
        run("pathwise", "lab", "down", "demo")
        agents.wait()
    got = {int(m[2]): (float(m[1]), float(m[3])) for m in re.finditer(r"\[([\d.]+)\].*icmp_seq=(\d+).*time=([\d.]+) ms", (dir / "ping").read_text())}
    return used, before, after, got


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        print(json.dumps(ranking(Path(d)))[:3000])
        print(failover(Path(d)))
