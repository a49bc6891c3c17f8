"""A model of the tests' own: speaks the wire formats of Anthropic and OpenAI (both of them), streamed, well and badly.

    server.py SCRIPT LOG [CERTIFICATE KEY]

SCRIPT is a JSON array: one entry for each request, in order; the last one repeats. LOG gets one line of JSON for each request.
An entry is an object with
    text, calls     the reply: calls are [{"name": ..., "arguments": {...} or the text of it}]
    status          an error instead, with `headers` and a body in the provider's shape
    cut             the stream ends after half of the reply
    error           an error in the middle of the stream
    nonsense        a page that is no stream
    garbage         a stream of what is no JSON
    hang            nothing is said, until the client goes
    slow            seconds before the first byte
    tokens          [in, out], as counted; null for a server that counts nothing
It prints its port.
"""

import http.server
import itertools
import json
import ssl
import sys
import threading
import time

script = json.load(open(sys.argv[1]))
log = open(sys.argv[2], "a", buffering=1)
lock = threading.Lock()
numbers = itertools.count(1)


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(404, b"{}")

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        try:
            asked = json.loads(body)
        except ValueError:
            return self.answer(400, b'{"error": {"type": "invalid", "message": "no JSON"}}')
        kinds = {"/v1/messages": Anthropic, "/v1/chat/completions": OpenAI, "/v1/responses": Responses}
        if path not in kinds:
            return self.answer(404, b'{"error": {"message": "no such path"}}')
        with lock:
            step = script.pop(0) if len(script) > 1 else script[0]
            headers = {name.lower(): value for name, value in self.headers.items()}
            log.write(json.dumps({"path": path, "headers": headers, "body": asked}) + "\n")
        time.sleep(step.get("slow", 0))
        kind = kinds[path]
        if "status" in step:
            error = {"type": "error", "error": {"type": step.get("type", "api_error"), "message": step.get("message", "as asked")}}
            return self.answer(step["status"], json.dumps(error).encode(), step.get("headers", {}))
        if step.get("nonsense"):
            return self.answer(200, b"<html>It works!</html>", {"Content-Type": "text/html"})
        if step.get("hang"):
            self.connection.settimeout(60)
            try:
                self.connection.recv(1)
            except OSError:
                pass
            self.close_connection = True
            return
        if not asked.get("stream"):
            return self.answer(200, json.dumps(kind.whole(step, asked)).encode(), {"Content-Type": "application/json"})
        events = ["{not json"] * 3 if step.get("garbage") else list(kind.events(step, asked))
        if step.get("cut"):
            events = events[: len(events) // 2]
        if step.get("error"):
            events = events[: len(events) // 2] + [kind.error(step)]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            self.piece(f"{name}data: {data}\n\n".encode())
        if step.get("cut"):
            self.close_connection = True
        else:
            self.piece(b"")

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def text_of(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def pieces(text):
    half = (len(text) + 1) // 2
    return [piece for piece in (text[:half], text[half:]) if piece] or [""]


class Anthropic:
    @staticmethod
    def whole(step, asked):
        content = [{"type": "text", "text": step["text"]}] if step.get("text") else []
        for number, call in enumerate(step.get("calls", [])):
            content.append({"type": "tool_use", "id": f"toolu_{next(numbers)}", "name": call["name"], "input": call["arguments"]})
        tokens = step.get("tokens", [10, 5]) or [0, 0]
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        reason = "tool_use" if step.get("calls") else "end_turn"
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.get("model"), "content": content,
                "stop_reason": reason, "stop_sequence": None, "usage": usage}  # fmt: skip

    @staticmethod
    def events(step, asked):
        tokens = step.get("tokens", [10, 5])
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None}  # fmt: skip
        if tokens:
            message["usage"] = {"input_tokens": tokens[0], "output_tokens": 1}
        yield {"type": "message_start", "message": message}
        yield {"type": "ping"}
        blocks = [{"type": "text", "text": step["text"]}] if step.get("text") else []
        blocks += [{"type": "tool_use", **call} for call in step.get("calls", [])]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                start, kind, field, whole = {"type": "text", "text": ""}, "text_delta", "text", block["text"]
            else:
                start = {"type": "tool_use", "id": f"toolu_{next(numbers)}", "name": block["name"], "input": {}}
                kind, field, whole = "input_json_delta", "partial_json", text_of(block["arguments"])
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for piece in pieces(whole):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}
            yield {"type": "content_block_stop", "index": index}
        end = {"type": "message_delta", "delta": {"stop_reason": "tool_use" if step.get("calls") else "end_turn", "stop_sequence": None}}
        end["usage"] = {"output_tokens": tokens[1]} if tokens else {}
        yield end
        yield {"type": "message_stop"}

    @staticmethod
    def error(step):
        return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


class OpenAI:
    @staticmethod
    def message(step):
        message = {"role": "assistant", "content": step.get("text")}
        if step.get("calls"):
            message["tool_calls"] = [
                {"index": number, "id": f"call_{next(numbers)}", "type": "function",
                 "function": {"name": call["name"], "arguments": text_of(call["arguments"])}}  # fmt: skip
                for number, call in enumerate(step["calls"])
            ]
        return message

    @staticmethod
    def whole(step, asked):
        tokens = step.get("tokens", [10, 5]) or [0, 0]
        reason = "tool_calls" if step.get("calls") else "stop"
        choice = {"index": 0, "message": OpenAI.message(step), "finish_reason": reason}
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": asked.get("model"), "choices": [choice], "usage": usage}

    @staticmethod
    def events(step, asked):
        def chunk(delta, reason=None):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": asked.get("model"), "choices": [choice]}

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(step.get("text") or ""):
            yield chunk({"content": piece})
        for number, call in enumerate(step.get("calls", [])):
            first, *rest = pieces(text_of(call["arguments"]))
            start = {"index": number, "id": f"call_{next(numbers)}", "type": "function"}
            yield chunk({"tool_calls": [{**start, "function": {"name": call["name"], "arguments": first}}]})
            for piece in rest:
                yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls" if step.get("calls") else "stop")
        tokens = step.get("tokens", [10, 5])
        if tokens and asked.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
            yield {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": asked.get("model"), "choices": [], "usage": usage}
        yield "[DONE]"

    @staticmethod
    def error(step):
        return {"error": {"type": "server_error", "message": "overloaded"}}


class Responses:
    """The other format of OpenAI, which Codex speaks: a text, or calls."""

    @staticmethod
    def items(step):
        made = []
        if step.get("text") or not step.get("calls"):
            part = {"type": "output_text", "text": step.get("text") or "", "annotations": []}
            made.append({"type": "message", "id": "item_1", "status": "completed", "role": "assistant", "content": [part]})
        for call in step.get("calls", []):
            number = next(numbers)
            made.append({"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed",
                         "name": call["name"], "arguments": text_of(call["arguments"])})  # fmt: skip
        return made

    @staticmethod
    def whole(step, asked):
        tokens = step.get("tokens", [10, 5]) or [0, 0]
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens),
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
        return {"id": f"resp_{next(numbers)}", "object": "response", "created_at": 1, "status": "completed",
                "model": asked.get("model"), "output": Responses.items(step), "usage": usage}  # fmt: skip

    @staticmethod
    def events(step, asked):
        whole = Responses.whole(step, asked)
        yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
        for index, item in enumerate(whole["output"]):
            begun = {"content": []} if item["type"] == "message" else {"arguments": ""}
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress", **begun}}
            for piece in pieces(step.get("text") or "") if item["type"] == "message" else []:
                yield {"type": "response.output_text.delta", "item_id": "item_1", "output_index": index, "content_index": 0, "delta": piece}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": whole}

    @staticmethod
    def error(step):
        return {"type": "error", "code": "server_error", "message": "overloaded"}


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
