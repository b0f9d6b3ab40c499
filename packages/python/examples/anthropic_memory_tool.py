from contexture.anthropic_memory import ContextureMemoryTool

tool = ContextureMemoryTool(name="ann")
# anthropic.Anthropic().beta.messages.run_tools(model="claude-sonnet-5-5", tools=[tool], …)
note = "The dog is called Rufus."
tool.call({"command": "create", "path": "/memories/dog.md", "file_text": note})
print(tool.call({"command": "view", "path": "/memories/dog.md"}))
