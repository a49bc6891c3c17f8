// A list of which only the rows in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const BEYOND = 12;

interface Props<T> {
  items: T[];
  rowHeight: number;
  label: string;
  keyOf: (item: T) => string;
  open: (item: T) => void;
  children: (item: T) => ComponentChildren;
}

export function Virtual<T>({ items, rowHeight, label, keyOf, open, children }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 800 });
  const [at, setAt] = useState(0);
  const moved = useRef(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const current = Math.min(at, Math.max(items.length - 1, 0));
  useEffect(() => {
    const element = box.current;
    if (!element || !moved.current) return;
    moved.current = false;
    const top = current * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
    element.querySelector<HTMLElement>(`[data-row="${current}"]`)?.focus({ preventScroll: true });
  }, [current, seen]);
  const first = Math.max(0, Math.floor(seen.top / rowHeight) - BEYOND);
  const last = Math.min(items.length, Math.ceil((seen.top + seen.height) / rowHeight) + BEYOND);
  const keys = (event: KeyboardEvent) => {
    if (!(event.target as HTMLElement).dataset.row) return;
    const page = Math.max(1, Math.floor(seen.height / rowHeight) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -items.length, End: items.length };
    const item = items[current];
    if (event.key === "Enter" && item) return open(item);
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    moved.current = true;
    setAt(Math.min(items.length - 1, Math.max(0, current + step)));
    setSeen((before) => ({ ...before }));
  };
  return (
    <div class="virtual" ref={box} role="list" aria-label={label} onKeyDown={keys}>
      <div style={{ height: `${items.length * rowHeight}px`, position: "relative" }}>
        {items.slice(first, last).map((item, index) => (
          <div
            key={keyOf(item)}
            role="listitem"
            class="row"
            data-row={first + index}
            tabIndex={first + index === current ? 0 : -1}
            style={{ top: `${(first + index) * rowHeight}px`, height: `${rowHeight}px` }}
            onFocus={() => setAt(first + index)}
            onClick={(event) => !(event.target as HTMLElement).closest("button, a") && open(item)}
          >
            {children(item)}
          </div>
        ))}
      </div>
    </div>
  );
}
