"""One rank's scheduler. A turn uses the parts in this order:

process         loads everything, then loops
event_loop      one turn after another: rank 0 leads, the others follow
scheduler       hands each message and each step to the part it belongs to
intake          a message to a Request, or the reason why not     control: admin requests
waiting_queue   who waits, in which order (queue_policy)
step_planner    the rows of the next step (decode_planner: who gives way; prefill_planner: who joins)
request_memory  KV slots taken and given back, nowhere else       invariants: whether the books balance
batch           those rows as a ForwardBatch
rank_broadcast  the tick: same inputs, and the proof of the same decisions (decision_digest)
result_processor  requests grow and end (finish, stop_strings, seen_tokens)
output_builder  what the detokenizer is told                      stats: what people and routers are told
"""
