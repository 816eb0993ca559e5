"""One rank's scheduler. A turn uses the parts in this order:

process         loads everything, then loops
event_loop      one turn after another: rank 0 leads, the others follow     grammar_gate: who waits for a grammar
scheduler       hands each message and each step to the part it belongs to
intake          a message to a Request, or the reason why not (priorities, queue_limit)     control: admin requests
waiting_queue   who waits, in which order (queue_policy), and for how long (overtaking, deadlines)
step_planner    the rows of the next step (decode_planner, preemption: who gives way; prefill_planner: who joins,
                by decode_reserve and siblings)
request_memory  KV slots taken and given back, nowhere else       invariants: whether the books balance
batch           those rows as a ForwardBatch
rank_broadcast  the tick: same inputs, and the proof of the same decisions (decision_digest)
result_processor  requests grow and end (finish, stop_strings, seen_tokens)
logprob_teller  what requests want to know of probabilities (logprob_keeper: one request's)
output_builder  what the detokenizer is told                      stats: what people and routers are told
"""
