"""What `blocks.py` has to see in a document, whatever a fence says: run by `run.py` before the documents."""

import os
import tempfile

import blocks

DOCUMENT = """
Text.

    make install

```text
import os
print(os.getcwd())
```

~~~toml
apt-get install paddock
~~~

- an item

      paddock run -- true

  a paragraph of the item

1. another

   ```sh
   exec true
   ```

```json
{"a": [1]}
```

```ini
[Unit]
Description=x
```

```typescript
rm -rf build
```

```typescript
import { a } from 'b'
```

    NAME="value"

More text.

    $ ls

```python
1
```
"""
KINDS = ["unknown", "unknown", "unknown", "unknown", "unknown", "data", "data", "unknown", "other", "unknown", "console", "python"]


def wrong():
    """None if every block has the kind that it has to have; else what it has instead."""
    descriptor, path = tempfile.mkstemp(suffix=".md")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(DOCUMENT)
        found = [block.kind for block in blocks.read(path)]
    finally:
        os.unlink(path)
    return None if found == KINDS else f"{KINDS} are the kinds of the specimen, not {found}"
