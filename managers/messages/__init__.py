"""The wire format in one screen: which union of messages travels on which socket.

    socket                            carries                  from → to
    scheduler_input                   SchedulerInput           main, or the controller → scheduler rank 0
    controller_input                  ControllerInput          main → data-parallel controller, if there is one
    detokenizer_input                 DetokenizerInput         scheduler rank 0 of every replica → detokenizer
    tokenizer_manager_input           TokenizerManagerInput    detokenizer → main, or each of several fronts
    front_orders                      FrontOrder               main, and the other fronts → one of several fronts
    launcher_input                    LauncherInput            every child → main, at start; a front when it is drained

Where `--tokenizer-worker-num` makes several fronts, each of them sends what main does otherwise.

Everything the scheduler says goes through the detokenizer, so a reply can never overtake text.
"""

from managers.messages.base import Message, RequestId, pack_token_ids, unpack_token_ids
from managers.messages.control import (
    ControlReply,
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    SchedulerLoad,
    Shutdown,
)
from managers.messages.lifecycle import Drained, Failed, LauncherInput, Ready
from managers.messages.to_controller import ControllerInput, ControllerNote, ReplicaLost, RequestsEnded
from managers.messages.to_detokenizer import (
    DetokenizerInput,
    RequestFinished,
    RequestLogprobs,
    RequestOpened,
    TokenBatch,
)
from managers.messages.to_front import AbortByLabel, Drain, EngineLost, FrontOrder, Hurry, Leave
from managers.messages.to_scheduler import (
    AbortRequest,
    DefineGrammar,
    ForgetGrammar,
    RequestGrammar,
    SchedulerInput,
    TokenizedRequest,
)
from managers.messages.to_tokenizer_manager import TextBatch, TokenizerManagerInput

__all__ = [
    "AbortByLabel",
    "AbortRequest",
    "ControlReply",
    "ControllerInput",
    "ControllerNote",
    "DefineGrammar",
    "DetokenizerInput",
    "Drain",
    "Drained",
    "EngineLost",
    "Failed",
    "FlushCache",
    "FlushCacheReply",
    "ForgetGrammar",
    "FrontOrder",
    "GetState",
    "GetStateReply",
    "Hurry",
    "LauncherInput",
    "Leave",
    "Message",
    "Ready",
    "ReplicaLost",
    "RequestFinished",
    "RequestGrammar",
    "RequestId",
    "RequestLogprobs",
    "RequestOpened",
    "RequestsEnded",
    "SchedulerInput",
    "SchedulerLoad",
    "Shutdown",
    "TextBatch",
    "TokenBatch",
    "TokenizedRequest",
    "TokenizerManagerInput",
    "pack_token_ids",
    "unpack_token_ids",
]
