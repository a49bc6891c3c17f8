// The runner of Java contexts: one JShell that stays, in the process of its code. bash gives it the control stream as two pipes, 3 and 4.
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

class PaddockRunner {
    private static final int LONGEST_TEXT = 1_000_000;
    private static DataInputStream input;
    private static OutputStream output;
    private static JShell shell;
    private static volatile boolean running;
    private static volatile boolean interrupted;

    record Field(String name, byte[] value) {
        String text() {
            return new String(value, StandardCharsets.UTF_8);
        }
    }

    static class Failure extends Exception {
        final String name;
        final String traceback;

        Failure(String name, String value, String traceback) {
            super(value);
            this.name = name;
            this.traceback = traceback;
        }
    }

    public static void main(String[] arguments) throws Exception {
        input = new DataInputStream(new FileInputStream("/dev/fd/3"));
        output = new FileOutputStream("/dev/fd/4");
        shell = JShell.builder().executionEngine("local").in(System.in).out(System.out).err(System.err).build();
        for (String name : new String[] {"java.io", "java.math", "java.net", "java.nio.file", "java.time", "java.util", "java.util.concurrent",
            "java.util.function", "java.util.regex", "java.util.stream"}) {
            shell.eval("import " + name + ".*;");
        }
        // One that comes between two calls is nobody's.
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> {
            if (running) {
                interrupted = true;
                shell.stop();
            }
        });
        send("ready", Map.of("version", System.getProperty("java.version")));
        while (true) {
            List<Field> fields = new ArrayList<>();
            if (frame(fields).equals("run")) {
                answer(fields);
            }
        }
    }

    private static String[] line() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int one = input.read(); one != '\n'; one = input.read()) {
            if (one < 0) {
                System.exit(0);
            }
            bytes.write(one);
        }
        return bytes.toString(StandardCharsets.UTF_8).split(" ");
    }

    private static String frame(List<Field> fields) throws IOException {
        String[] head = line();
        for (int left = Integer.parseInt(head[1]); left > 0; left--) {
            String[] field = line();
            byte[] value = new byte[Integer.parseInt(field[1])];
            input.readFully(value);
            input.readByte();
            fields.add(new Field(field[0], value));
        }
        return head[0];
    }

    private static synchronized void send(String kind, Map<String, String> fields) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes((kind + " " + fields.size() + "\n").getBytes(StandardCharsets.UTF_8));
        for (Map.Entry<String, String> field : fields.entrySet()) {
            byte[] value = field.getValue().getBytes(StandardCharsets.UTF_8);
            bytes.writeBytes((field.getKey() + " " + value.length + "\n").getBytes(StandardCharsets.UTF_8));
            bytes.writeBytes(value);
            bytes.write('\n');
        }
        output.write(bytes.toByteArray());
        output.flush();
    }

    private static void answer(List<Field> fields) throws IOException {
        String call = "";
        String code = "";
        InputStream before = System.in;
        Map<String, String> undo = new LinkedHashMap<>();
        Failure failure = null;
        String shown = null;
        interrupted = false;
        running = true;
        try {
            for (Field field : fields) {
                switch (field.name()) {
                    case "call" -> call = field.text();
                    case "code" -> code = field.text();
                    case "stdin" -> System.setIn(new ByteArrayInputStream(field.value()));
                    case "cwd" -> throw new Failure("UnsupportedOperationException", "the directory of a Java context is that of its beginning", "");
                    // A process of Java cannot change its own variables, so that these are properties.
                    case "env" -> {
                        String[] pair = field.text().split("=", 2);
                        undo.put(pair[0], System.getProperty(pair[0]));
                        System.setProperty(pair[0], pair[1]);
                    }
                    default -> { }
                }
            }
            shown = evaluate(code);
        } catch (Failure told) {
            failure = told;
        } finally {
            running = false;
            System.setIn(before);
            undo.forEach((name, value) -> {
                if (value == null) {
                    System.clearProperty(name);
                } else {
                    System.setProperty(name, value);
                }
            });
        }
        System.out.flush();
        System.err.flush();
        if (interrupted) {
            failure = new Failure("Interrupt", "the code was interrupted", "Interrupt");
        }
        if (failure != null) {
            String traceback = failure.traceback.isEmpty() ? failure.name + ": " + failure.getMessage() : failure.traceback;
            System.err.println(traceback);
            System.err.flush();
            send("error", Map.of("name", failure.name, "value", String.valueOf(failure.getMessage()), "traceback", traceback));
        } else if (shown != null) {
            send("result", Map.of("main", "1", "text/plain", shown.substring(0, Math.min(shown.length(), LONGEST_TEXT))));
        }
        send("done", Map.of("call", call, "exit_code", failure == null ? "0" : "1"));
    }

    /** The value of the last snippet, where it is an expression. */
    private static String evaluate(String code) throws Failure {
        String shown = null;
        String rest = code;
        while (!rest.isBlank() && !interrupted) {
            CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            boolean complete = info.completeness().isComplete();
            String snippet = complete ? info.source() : rest;
            rest = complete ? info.remaining() : "";
            shown = null;
            for (SnippetEvent event : shell.eval(snippet)) {
                if (event.causeSnippet() != null) {
                    continue;
                }
                if (event.status() == Snippet.Status.REJECTED) {
                    throw rejected(event.snippet());
                }
                if (event.exception() != null) {
                    throw thrown(event.exception());
                }
                boolean expression = event.snippet().kind() == Snippet.Kind.EXPRESSION
                    || event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
                if (expression && event.value() != null && !event.value().isEmpty()) {
                    shown = event.value();
                }
            }
        }
        return shown;
    }

    private static Failure rejected(Snippet snippet) {
        List<String> messages = new ArrayList<>();
        shell.diagnostics(snippet).filter(Diag::isError).forEach(diagnostic -> messages.add(diagnostic.getMessage(Locale.ENGLISH)));
        String value = messages.isEmpty() ? "the code is not Java" : String.join("; ", messages);
        return new Failure("CompilationError", value, "");
    }

    private static Failure thrown(JShellException exception) {
        String name = exception instanceof EvalException ? ((EvalException) exception).getExceptionClassName() : "UnresolvedReference";
        StringBuilder trace = new StringBuilder(name + ": " + exception.getMessage());
        for (StackTraceElement element : exception.getStackTrace()) {
            trace.append("\n    at ").append(element);
        }
        return new Failure(name, String.valueOf(exception.getMessage()), trace.toString());
    }
}
