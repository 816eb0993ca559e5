"""A rerank request to a GenerateRequest: a model that writes is asked of each document whether it answers the query.

The words are those that Qwen3's rerankers were trained on. The document comes last, so that all prompts of a request
share everything before it, and that is computed once.
"""

from dataclasses import dataclass

from srt.engine_client import ChatPrompt, EngineClient, GenerateRequest, ModelInfo, Prompt, TextPrompt
from srt.entrypoints.label_probabilities import ONE_TOKEN, ask_labels
from srt.entrypoints.prompt_rows import check_num_choices
from srt.entrypoints.refused_fields import refuse_fields
from srt.entrypoints.request_identity import checked_rid, to_namespace
from srt.entrypoints.rerank.protocol import RerankRequest
from srt.errors import InvalidRequest

TASK = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
DEFAULT_INSTRUCT = "Given a web search query, retrieve relevant passages that answer the query"
FIELD_NAMES = {"prompt": "documents", "messages": "documents", "max_tokens": "documents"}


@dataclass(frozen=True, slots=True)
class YesNo:
    """The tokens whose probabilities are compared."""

    yes: int
    no: int


async def yes_and_no(client: EngineClient) -> YesNo:
    """How this model begins to say yes, and no. Raises InvalidRequest if it begins both alike."""
    yes, no = [
        (await client.tokenize(TextPrompt(word), add_special_tokens=False))[0] for word in ("yes", "no")
    ]
    if yes == no:
        raise InvalidRequest("this model's tokenizer begins yes and no with the same token: it cannot rerank")
    return YesNo(yes, no)


def to_generate_request(
    body: RerankRequest, model: ModelInfo, labels: YesNo, *, rid: str, dp_rank: int | None = None
) -> GenerateRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body)
    if not body.documents:
        raise InvalidRequest("documents must not be empty", param="documents")
    prompts = [_to_prompt(body, document, model) for document in body.documents]
    request = GenerateRequest(
        prompts=prompts,
        sampling=[ONE_TOKEN] * len(prompts),
        logprobs=[ask_labels([labels.yes, labels.no], model.vocab_size)] * len(prompts),
        stream=False,
        rid=checked_rid(body.rid, made=rid),
        namespace=to_namespace(body.cache_salt, body.extra_key),
        priority=body.priority,
        timeout_s=body.timeout_s,
        dp_rank=dp_rank,
    )
    check_num_choices(request)
    return request


def _to_prompt(body: RerankRequest, document: str, model: ModelInfo) -> Prompt:
    question = (
        f"<Instruct>: {body.instruct or DEFAULT_INSTRUCT}\n<Query>: {body.query}\n<Document>: {document}"
    )
    if not model.has_chat_template:
        return TextPrompt(f"{TASK}\n\n{question}\n\n<Answer>: ")
    return ChatPrompt(
        messages=[{"role": "system", "content": TASK}, {"role": "user", "content": question}],
        # Qwen3's template then writes the empty thoughts that its rerankers expect; others do not read it.
        template_kwargs={"enable_thinking": False},
    )
