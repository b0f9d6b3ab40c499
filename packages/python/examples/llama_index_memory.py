import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from contexture.llama_index import ContextureMemoryBlock

block = ContextureMemoryBlock(max_tokens=500)
memory = Memory.from_defaults(session_id="user-42", memory_blocks=[block])


async def main() -> None:
    said = [ChatMessage(role="user", content="My dog is called Rufus.")]
    await block.aput(said, session_id=memory.session_id)
    await memory.aput(ChatMessage(role="user", content="What is my dog called?"))
    print(await memory.aget())


asyncio.run(main())
