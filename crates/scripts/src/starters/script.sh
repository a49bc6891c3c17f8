# sandbox
# volume: greetings state

name="$1"
count=${2:-1}

before=$(cat state/count 2>/dev/null || echo 0)
echo $((before + count)) > state/count
echo "{\"text\": \"Hello, $name!\", \"count\": $((before + count))}" > result.json
