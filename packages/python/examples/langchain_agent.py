from typing import Any, cast

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from contexture.langchain import ContextureMiddleware

model = FakeListChatModel(responses=["Hello."])  # or "openai:gpt-5.6"
agent = create_agent(model, tools=[], middleware=[ContextureMiddleware(max_tokens=8_000)])

history: list[Any] = [("user", "word " * 200), ("assistant", "word " * 200)] * 50
state = agent.invoke(cast("Any", {"messages": [*history, ("user", "What now?")]}))
print(state["messages"][-1].text)
print(state["messages"][-1].response_metadata["contexture"]["changed"])
