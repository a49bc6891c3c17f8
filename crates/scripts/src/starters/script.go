// sandbox
// volume: greetings state

package inner

import (
	"os"
	"strconv"
	"strings"
)

type Greeting struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

func main(name string) (Greeting, error) {
	text, _ := os.ReadFile("state/count")
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	err := os.WriteFile("state/count", []byte(strconv.Itoa(before+1)), 0o644)
	return Greeting{"Hello, " + name + "!", before + 1}, err
}
