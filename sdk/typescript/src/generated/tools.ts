// Made from sdk/python/src/paddock/_tools.json by scripts/types.mjs; not for editing.

export const TOOLS = {
  "run_code": {
    "description": "Run source code in an isolated sandbox and get back what it prints and the value of its last expression. {state} {network} {limits}",
    "parameters": {
      "code": {"type": "string", "description": "The source text to run."},
      "language": {"type": "string", "enum": ["python", "javascript", "bash"], "description": "Default: python."},
      "timeout_seconds": {"type": "number", "minimum": 1, "maximum": 3600, "description": "Then it is killed, and what it printed comes back. Default: {timeout}."}
    },
    "required": ["code"]
  },
  "run_shell": {
    "description": "Run a command line with /bin/sh in the sandbox and get back its output and exit code. It starts in {directory}; a change of directory or a variable does not last until the next call, files do. It has no terminal and no input: use flags that ask nothing. {network}",
    "parameters": {
      "command": {"type": "string", "description": "The command line."},
      "cwd": {"type": "string", "description": "The directory to run it in. Default: {directory}."},
      "timeout_seconds": {"type": "number", "minimum": 1, "maximum": 3600, "description": "Then it and all that it started are killed, and what was printed comes back. Default: {timeout}."}
    },
    "required": ["command"]
  },
  "read_file": {
    "description": "Read a text file of the sandbox, exactly as it is. A long file comes in pieces: the answer says with which start_line to read on.",
    "parameters": {
      "path": {"type": "string", "description": "Absolute, or relative to {directory}."},
      "start_line": {"type": "integer", "minimum": 1, "description": "The first line to read. Default: 1."},
      "lines": {"type": "integer", "minimum": 1, "description": "How many lines at most. Default: as many as fit."}
    },
    "required": ["path"]
  },
  "write_file": {
    "description": "Write a whole text file in the sandbox; what was there is replaced, and missing directories are made. To change a part of a file use edit_file.",
    "parameters": {
      "path": {"type": "string", "description": "Absolute, or relative to {directory}."},
      "content": {"type": "string", "description": "The whole new content."}
    },
    "required": ["path", "content"]
  },
  "edit_file": {
    "description": "Replace a piece of a text file in the sandbox. old_text has to stand in the file exactly once, white space included: give enough lines around the change to make it unique, or set replace_all.",
    "parameters": {
      "path": {"type": "string", "description": "Absolute, or relative to {directory}."},
      "old_text": {"type": "string", "description": "The text to replace, exactly as it stands there."},
      "new_text": {"type": "string", "description": "What to put in its place."},
      "replace_all": {"type": "boolean", "description": "Replace it wherever it stands. Default: false."}
    },
    "required": ["path", "old_text", "new_text"]
  },
  "list_files": {
    "description": "List a directory of the sandbox: kind, size and path of each entry.",
    "parameters": {
      "path": {"type": "string", "description": "Absolute, or relative to {directory}. Default: {directory}."},
      "recursive": {"type": "boolean", "description": "All that is below it too. Default: false."}
    },
    "required": []
  },
  "read_output": {
    "description": "Read on in an output that was too long to be shown whole. The answer that was cut names the output and the offset.",
    "parameters": {
      "output": {"type": "string", "description": "The name of the output, as in the answer that was cut."},
      "offset": {"type": "integer", "minimum": 0, "description": "The first character to read."}
    },
    "required": ["output", "offset"]
  }
} as const
