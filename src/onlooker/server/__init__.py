"""The server: REST, the chat proxy, MCP, live events and metrics. It needs the extra `server`.

config    where it listens, who may call it, and the providers of the proxy
auth      tokens, and the checks of every request: host, origin, size, rate, token
app       the application, and the form of its errors
rest      `/v1`
proxy     the chat proxy
mcp       memory as tools for other programs
live      live events, and metrics
client    `onlooker.connect`: the same sessions from another process
"""
