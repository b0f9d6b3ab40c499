"""Does what a script on standard input says with the protocol's own client.

The script is JSON: `server` is a command to start or an address to call, `mode`
how the client begins, and `steps` what it does. A line of JSON is printed for
each step: `ok` with what the client understood, or `error`.
"""

import json
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def told(outcome):
    print(json.dumps(outcome), flush=True)


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def step(client, step):
    match step["do"]:
        case "info":
            return {
                "server": plain(client.server_info),
                "instructions": client.instructions,
                "protocol": client.protocol_version,
            }
        case "tools":
            return plain(await client.list_tools())["tools"]
        case "resources":
            return plain(await client.list_resources())["resources"]
        case "templates":
            return plain(await client.list_resource_templates())["resourceTemplates"]
        case "prompts":
            return plain(await client.list_prompts())["prompts"]
        case "call":
            return plain(await client.call_tool(step["name"], step["arguments"]))
        case "read":
            return plain(await client.read_resource(step["uri"]))["contents"]
        case "prompt":
            return plain(await client.get_prompt(step["name"], step["arguments"]))["messages"]
        case "repeat":
            refused = 0
            for _ in range(step["times"]):
                result = await client.call_tool(step["name"], step["arguments"])
                refused += bool(result.is_error)
            return {"refused": refused}


async def drive(client, steps):
    async with client:
        for one in steps:
            try:
                told({"ok": await step(client, one)})
            except MCPError as error:
                told({"error": {"code": error.code, "message": error.message, "data": error.data}})


async def main():
    script = json.load(sys.stdin)
    server, steps = script["server"], script["steps"]
    if "command" in server:
        await drive(Client(StdioServerParameters(**server), mode=script["mode"]), steps)
        return
    async with httpx2.AsyncClient(headers=server["headers"], timeout=60) as http:
        if script["mode"] == "raw":
            for one in steps:
                response = await http.request(
                    one["method"], server["url"], headers=one["headers"], content=one["body"]
                )
                told({"ok": {"status": response.status_code, "body": response.text}})
            return
        transport = streamable_http_client(server["url"], http_client=http)
        await drive(Client(transport, mode=script["mode"]), steps)


anyio.run(main)
