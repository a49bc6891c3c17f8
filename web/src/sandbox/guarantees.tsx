// The guarantees of this sandbox's fence on this host, and where it is weaker than its fullest form, in plain words.

import type { Schema } from "../api";
import { name } from "../format";
import { Card, Empty, Facts, Words } from "../parts/basics";

const WORDS: Record<string, Record<string, string>> = {
  boundary: {
    "shared-kernel": "the host's kernel, behind namespaces, a filter of system calls and Landlock",
    "user-space-kernel": "a kernel in user space (gVisor)",
    "own-kernel": "a kernel of its own, in a VM",
  },
  network: { none: "none: only its own loopback", gate: "what its rules allow, and nothing else", host: "the host's own network: no fence at all for traffic" },
  identity: { own: "ids that nothing else on the host has", caller: "the caller's own id: separated from the caller's processes by namespaces only" },
  memory_limit: { kernel: "held by the kernel", watched: "watched: a burst can pass it for a moment", none: "none: this host has no means" },
  cpu_limit: { kernel: "held by the kernel", watched: "watched", none: "none: this host has no means" },
  pids_limit: { kernel: "held by the kernel", watched: "watched", none: "none: this host has no means" },
  disk_limit: { kernel: "held by the kernel", "kernel-in-memory": "held by the kernel; the disk is in memory and counts against it" },
  pause: { "kernel-freezer": "by the kernel: nothing inside can notice or resist", "stop-signals": "by stop signals, which parents inside can see" },
  snapshot: { "filesystem-instant": "files, at once", "filesystem-copy": "files, by copy", memory: "memory and processes with the files" },
  fork: { filesystem: "its files", interpreter: "its files and interpreters as they stand", memory: "files, memory and all processes" },
  seccomp: { on: "on", absent: "absent" },
  time_namespace: { on: "on", absent: "absent" },
  system_inodes: { on: "its own: others cannot be watched or locked out through them", absent: "shared with the host's" },
};

const LABELS: Record<string, string> = {
  backend: "Backend",
  boundary: "Kernel boundary",
  network: "Network",
  identity: "Host ids of the code",
  memory_limit: "Memory limit",
  cpu_limit: "Processor limit",
  pids_limit: "Process limit",
  disk_limit: "Disk limit",
  pause: "Paused",
  snapshot: "Snapshots keep",
  fork: "Forks begin with",
  survives_pause: "A pause keeps",
  survives_hibernate: "Hibernation keeps",
  seccomp: "Filter of system calls",
  landlock_abi: "Landlock version",
  time_namespace: "Clocks of its own",
  system_inodes: "Files of the host's system",
};

export function Guarantees({ sandbox }: { sandbox: Schema["Sandbox"] }) {
  const guarantees = sandbox.guarantees as Record<string, unknown>;
  const weaknesses = Array.isArray(guarantees.weaknesses) ? guarantees.weaknesses.map(String) : [];
  const said = (key: string): string => {
    const value = guarantees[key];
    if (Array.isArray(value)) return value.join(", ") || "nothing";
    return WORDS[key]?.[String(value)] ?? name(String(value));
  };
  return (
    <div class="grid">
      <Card title="What holds">
        <Facts facts={Object.keys(LABELS).filter((key) => guarantees[key] !== undefined).map((key) => [LABELS[key] ?? key, said(key)])} />
      </Card>
      <Card title="Where it is weaker">
        {weaknesses.length === 0 && <Empty>Nowhere: this is the fullest form of the fence.</Empty>}
        <ul class="words">
          {weaknesses.map((one) => (
            <li key={one}>
              <Words text={name(one)} />
            </li>
          ))}
        </ul>
      </Card>
    </div>
  );
}
