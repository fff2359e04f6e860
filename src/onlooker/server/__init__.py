"""The server: REST, the chat proxy, MCP, live events and metrics. It needs the extra `server`.

config    where it listens, who may ask, and which providers the proxy speaks to
auth      tokens, and what every request must pass: host, origin, size, rate, token
app       everything put together, with one form of error
rest      `/v1`
proxy     the chat proxy
mcp       memory as tools for other programs
live      events as they happen, and metrics
client    `onlooker.connect`: the same sessions from another process
"""
