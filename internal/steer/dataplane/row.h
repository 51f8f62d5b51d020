/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The row of a flow: which of the two rows of choices it goes by. */
#ifndef ROW_H
#define ROW_H

/* choose_path returns the path on which the pair's maps have a flow. */
static __always_inline __u32 choose_path(const struct peer *pe, __u32 bucket, __u32 role)
{
	__u32 id = pe->id;
	struct choices *r = role == FLOW_OWNER ? bpf_map_lookup_elem(&pw_owner, &id) : bpf_map_lookup_elem(&pw_follower, &id);

	__u32 n = r ? *(volatile __u8 *)&r->choice[bucket & (BUCKETS - 1)] & CHOICE_PATH : 0;
	/* A dead agent cannot see its path fail: back to the default. */
	if (!n || lease_runs())
		return n;
	count_event(EV_LEASE);
	return 0;
}

/* elsewhere is whether flows with a peer may begin on a path (CHOICE_OPENS), or be taken from one
 * (CHOICE_TAKES): the agent knows that the default network fails, and that policy is the same on
 * others. The other end has to know the same, or to be told: it takes no such flow else. */
GLOBAL int elsewhere(__u32 peer, __u32 what)
{
	struct choices *c = bpf_map_lookup_elem(&pw_owner, &peer);

	return c && *(volatile __u8 *)&c->choice[0] & what && lease_runs();
}

/* answers_elsewhere is whether what the other end has yet to receive goes by a path. As the default
 * network is back, what has begun on a path is answered there: of its SYN, stateful filters on the
 * default network know nothing. */
GLOBAL int answers_elsewhere(const struct flow *f)
{
	struct flow_state *state;

	if (!f || !elsewhere(f->peer, CHOICE_TAKES))
		return 0;
	if (elsewhere(f->peer, CHOICE_OPENS))
		return 1;
	state = flow_of(f);
	return state && state->claimed == BEGUN_ELSEWHERE;
}

/* opening_path is the path of a packet whose flow begins, or whose answer the other end has yet
 * to receive: 0, the default network, but while that fails. */
static __always_inline __u32 opening_path(const struct peer *pe, const struct flow *f, __u32 bucket, __u32 role)
{
	__u32 n;

	if (role == FLOW_OWNER_NEW ? !elsewhere(pe->id, CHOICE_OPENS) : role != FLOW_ANSWERED || !answers_elsewhere(f))
		return 0;
	n = choose_path(pe, bucket, role == FLOW_OWNER_NEW ? FLOW_OWNER : FLOW_FOLLOW);
	if (n && role == FLOW_OWNER_NEW)
		count_event(EV_ELSEWHERE);
	return n;
}

/* open_from_path makes of a packet from a path what a tag on the default network would: the
 * beginning of a flow, or the answer to it. Returns the flow's role, none where a path may
 * not do so or there is no room. */
GLOBAL int open_from_path(const struct flow *f, __u32 role)
{
	if (!f || !elsewhere(f->peer, CHOICE_TAKES))
		return FLOW_NONE;
	if (role == FLOW_FOLLOW_NEW)
		return role;
	role = set_role(f, role == FLOW_OWNER_NEW ? FLOW_OWNER : FLOW_FOLLOW_NEW);
	struct flow_state *state = flow_of(f);
	if (state)
		state->claimed = BEGUN_ELSEWHERE;
	return role;
}

/* set_row puts a flow into another row. */
static __always_inline void set_row(const struct flow *f, struct flow_state *state, __u32 row)
{
	state->row = row & (ROWS - 1);
	uncache(f);
}

/* learn_row has the answers of a flow that the peer has opened go by the row of its choices
 * that has path n, by which the flow comes, where the flow's own row has another: the peer
 * has put it there. What was diverted here stays so. Packets that a switch overtakes come by
 * either path, and change nothing for long. */
GLOBAL int learn_row(const struct flow *f, struct flow_state *state, __u32 n)
{
	if (!f || !state || state->role < FLOW_ANSWERED)
		return 0;
	__u32 id = f->peer, row = state->row & (ROWS - 1), bucket = flow_bucket(f->local, f->remote, f->proto);
	struct choices *c = bpf_map_lookup_elem(&pw_follower, &id);
	if (!c)
		return 0;
	__u8 own = *(volatile __u8 *)&c->choice[row_bucket(bucket, row)];
	__u8 other = *(volatile __u8 *)&c->choice[row_bucket(bucket, !row)];
	if (own & CHOICE_DIVERTED || (own & CHOICE_PATH) == n || (other & CHOICE_PATH) != n)
		return 0;
	set_row(f, state, !row);
	return 1;
}

/* pw_assign_row puts a flow that this pod has opened into a row, as Go says: not by the table,
 * as what packets change of the flow meanwhile would be lost. The other end learns of it by the path
 * on which the flow comes; on the default network, by what is announced there. Returns
 * whether there is such a flow. */
SEC("syscall") int pw_assign_row(struct row_order *order)
{
	struct flow f = order->flow;
	struct flow_state *state = flow_of(&f);

	if (!state || (state->role != FLOW_OWNER && state->role != FLOW_OWNER_NEW))
		return 0;
	if (state->row != order->row) {
		set_row(&f, state, order->row);
		state->announcements = 0;
	}
	return 1;
}

/* pw_admit takes a flow of datagrams that nobody answers for one that is answered, where its
 * announcement has passed the default network: at the end that gets it, when the other agent
 * asks, and then at the one that sends it. Returns whether it is admitted. */
SEC("syscall") int pw_admit(struct flow *order)
{
	struct flow f = *order;
	struct flow_state *state = f.proto == IPPROTO_UDP ? flow_of(&f) : NULL;

	if (!state)
		return 0;
	/* As set_role, which this type of program may not call; of datagrams nothing is cached. */
	if (!ADMITTED(state->role) && state->role != FLOW_NONE) {
		state->announcements = 0;
		state->claimed = ONE_WAY;
		state->role = state->role == FLOW_FOLLOW_NEW ? FLOW_ANSWERED : FLOW_OWNER;
	}
	return ADMITTED(state->role);
}

/* is_one_way is whether nobody has answered a flow that agents have admitted. */
static __always_inline int is_one_way(const struct flow *f, const struct flow_state *state)
{
	return f->proto == IPPROTO_UDP && state && state->claimed == ONE_WAY;
}

/* note_answer notes that the end that gets a flow has answered: answers is whether this packet,
 * which leaves or comes, would be an answer by the role of this end. */
static __always_inline void note_answer(const struct flow *f, struct flow_state *state, int answers)
{
	if (answers && is_one_way(f, state))
		state->claimed = CLAIMED;
}

/* note_received notes that a packet of the flow has come, and what it may answer: read now and then, the turn
 * tells that some was, however many have gone since. */
static __always_inline void note_received(const struct flow *f, struct flow_state *state, __u32 role)
{
	if (!state)
		return;
	if (state->unanswered & UNANSWERED_MOST)
		state->unanswered = ~state->unanswered & UNANSWERED_TURN;
	note_answer(f, state, role <= FLOW_OWNER);
}

/* wants_datagram is whether an answer is waited for to a datagram that leaves: of one way there
 * is none. It notes one that is an answer itself, and counts those after which none has come. */
GLOBAL int wants_datagram(const struct flow *f, struct flow_state *state, __u32 role)
{
	if (!f || !state)
		return 1;
	note_answer(f, state, role > FLOW_OWNER);
	if (role == FLOW_OWNER && is_one_way(f, state))
		return 0;
	if ((role == FLOW_OWNER || role == FLOW_FOLLOW) && (state->unanswered & UNANSWERED_MOST) < UNANSWERED_MOST)
		state->unanswered++;
	return 1;
}

#endif
