# sandbox
# volume: greetings state

def main(name, count: 1)
  before = File.exist?("state/count") ? File.read("state/count").to_i : 0
  File.write("state/count", (before + count).to_s)
  { text: "Hello, #{name}!", count: before + count }
end
