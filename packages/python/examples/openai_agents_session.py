import asyncio

from agents import RunConfig

from contexture.openai_agents import ContextureSession, fit_input

session = ContextureSession("user-42")
config = RunConfig(call_model_input_filter=fit_input(max_tokens=100_000))
# await Runner.run(agent, "What is my dog called?", session=session, run_config=config)


async def main() -> None:
    await session.add_items([{"role": "user", "content": "My dog is called Rufus."}])
    print(await session.get_items())


asyncio.run(main())
