"""The program that runs inside a sandbox (`inside`), and the host's side of the conversation with it.

An adapter that can run a program in its sandbox and hold that program's stdin and stdout needs two names:
`agent_argv` is what the sandbox must run, `open_agent` turns the byte stream into a `Session`.
"""
