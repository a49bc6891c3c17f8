"""A server on loopback that speaks the wire formats of two providers and answers from a script.

It is as strict as they are: every tool call has to be answered, by its id, in the very next turn.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional, Tuple

Json = Dict[str, Any]
#: Name of a tool and its arguments.
Wish = Tuple[str, Json]


class Refused(Exception):
    """The request is not as the provider wants it."""


class ModelServer:
    """Calls the given tools, some in each turn; then says the last result."""

    def __init__(self, turns: List[List[Wish]]) -> None:
        self.turns = turns
        #: What the tools answered: text and whether it was marked as an error, which only one provider can.
        self.results: List[Tuple[str, Optional[bool]]] = []
        self._asked: List[str] = []
        self._made = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answers: Dict[str, Callable[[Json], Json]] = {
                    "/v1/messages": server._messages,
                    "/v1/chat/completions": server._chat,
                    "/v1/responses": server._responses,
                }
                try:
                    status, answer = 200, answers[self.path](body)
                except Refused as error:
                    status, answer = (
                        400,
                        {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}},
                    )
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _wishes(self) -> List[Tuple[str, str, Json]]:
        wishes = []
        for name, arguments in self.turns.pop(0) if self.turns else []:
            self._made += 1
            wishes.append((f"call_{self._made}", name, arguments))
        self._asked = [identity for identity, _, _ in wishes]
        return wishes

    def _answered(self, results: List[Tuple[str, str, Optional[bool]]]) -> None:
        if [identity for identity, _, _ in results] != self._asked:
            raise Refused(f"calls {self._asked} were answered by {[identity for identity, _, _ in results]}")
        self.results += [(text, failed) for _, text, failed in results]

    def _final(self) -> str:
        return f"The answer is {self.results[-1][0]}." if self.results else "Nothing was run."

    def _messages(self, body: Json) -> Json:
        for tool in body["tools"]:
            if set(tool) != {"name", "description", "input_schema"} or tool["input_schema"]["type"] != "object":
                raise Refused(f"no tool: {tool}")
        roles = [message["role"] for message in body["messages"]]
        if roles[0] != "user" or any(a == b for a, b in zip(roles, roles[1:])):
            raise Refused(f"roles do not take turns: {roles}")
        if self._asked:
            content = body["messages"][-1]["content"]
            if any(set(block) != {"type", "tool_use_id", "content", "is_error"} for block in content):
                raise Refused(f"no tool results: {content}")
            self._answered([(b["tool_use_id"], b["content"][0]["text"], b["is_error"]) for b in content])
        blocks: List[Json] = [
            {"type": "tool_use", "id": identity, "name": name, "input": arguments}
            for identity, name, arguments in self._wishes()
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": blocks or [{"type": "text", "text": self._final()}],
            "stop_reason": "tool_use" if blocks else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def _chat(self, body: Json) -> Json:
        for tool in body["tools"]:
            if tool["type"] != "function" or set(tool["function"]) != {"name", "description", "parameters"}:
                raise Refused(f"no tool: {tool}")
        if self._asked:
            last = body["messages"][-len(self._asked) :]
            if any(message["role"] != "tool" for message in last):
                raise Refused(f"no tool messages: {last}")
            self._answered([(m["tool_call_id"], m["content"], None) for m in last])
        calls = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for identity, name, arguments in self._wishes()
        ]
        message: Json = {"role": "assistant", "content": None if calls else self._final()}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}

    def _responses(self, body: Json) -> Json:
        if any(tool["type"] != "function" or "parameters" not in tool for tool in body["tools"]):
            raise Refused(f"no tools: {body['tools']}")
        if self._asked:
            last = body["input"][-len(self._asked) :]
            if any(item["type"] != "function_call_output" for item in last):
                raise Refused(f"no outputs: {last}")
            self._answered([(item["call_id"], item["output"], None) for item in last])
        output: List[Json] = [
            {"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": name, "arguments": json.dumps(a)}
            for i, name, a in self._wishes()
        ]
        text = {"type": "output_text", "text": self._final(), "annotations": []}
        said = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": body["model"],
            "status": "completed",
            "output": output or [said],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": body["tools"],
        }
