from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from contexture.pydantic_ai import fit_history


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del info
    return ModelResponse(parts=[TextPart(f"I was sent {len(messages)} messages.")])


model = FunctionModel(answer)  # or "openai:gpt-5.6"
agent = Agent(model, capabilities=[ProcessHistory(fit_history(max_tokens=8_000))])

history: list[ModelMessage] = []
for _ in range(50):
    history.append(ModelRequest(parts=[UserPromptPart("word " * 200)]))
    history.append(ModelResponse(parts=[TextPart("word " * 200)]))
print(agent.run_sync("What now?", message_history=history).output)
