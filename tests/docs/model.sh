# Sourced by documents whose examples ask a model: a scripted one that answers in the format of Anthropic.
cat > model.json <<'SCRIPT'
[{"calls": [{"name": "run_code", "arguments": {"code": "a, b = 0, 1\nfor _ in range(30): a, b = b, a + b\nprint(a)"}}]},
 {"text": "The 30th Fibonacci number is 832040."}]
SCRIPT
touch model.log
coproc MODEL { exec "$PADDOCK_DOCS_PYTHON" "$PADDOCK_DOCS_ROOT/tests/e2e/models/server.py" model.json model.log; }
read -r port <&"${MODEL[0]}"
export ANTHROPIC_API_KEY=the-key-of-the-example ANTHROPIC_BASE_URL="http://127.0.0.1:$port" ANTHROPIC_MODEL=example
