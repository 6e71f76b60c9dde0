import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Checks of a JMS client against the broker behind a URL.
 *
 * <p>Arguments: the URL, a second URL that leads to the same broker, the prefix of the queues' names, and the names of
 * checks (none: all). Prints one line of JSON for each check: its name, whether it went well, what was wrong, and what
 * else was seen, which has to be the same with and without routers. `names` alone prints the names.
 */
public final class Main {
    /** One check; what it returns is what was seen. */
    interface Check {
        String run(Scene scene) throws Exception;
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        QueueChecks.add(CHECKS);
        SessionChecks.add(CHECKS);
        TopicChecks.add(CHECKS);
        PropertyChecks.add(CHECKS);
    }

    private Main() {}

    public static void main(String[] args) {
        List<String> wanted = args.length > 3 ? List.of(args).subList(3, args.length) : List.copyOf(CHECKS.keySet());
        for (String name : wanted) System.out.println(run(name, args));
        System.exit(0); // threads of a client that failed may hang
    }

    private static String run(String name, String[] args) {
        String seen = "";
        String wrong = "";
        try (Scene scene = new Scene(args[0], args[1], args[2], name)) {
            seen = CHECKS.get(name).run(scene);
        } catch (Exception | AssertionError e) {
            StringWriter text = new StringWriter();
            e.printStackTrace(new PrintWriter(text));
            wrong = text.toString();
        }
        return "{\"check\": %s, \"ok\": %s, \"seen\": %s, \"wrong\": %s}"
                .formatted(json(name), wrong.isEmpty(), json(seen), json(wrong));
    }

    static String json(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ' || c > '~') out.append("\\u%04x".formatted((int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }
}
