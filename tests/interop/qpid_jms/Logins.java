import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Tries one login after the other.
 *
 * <p>Arguments: for each login its name, the URL with all options, the user and the password, "" for none. Prints one line
 * of JSON for each: its name, and the error, "" for who gets in.
 */
public final class Logins {
    private static final int PARTS = 4;

    private Logins() {}

    public static void main(String[] args) {
        for (int at = 0; at < args.length; at += PARTS) {
            String error = attempt(args[at + 1], args[at + 2], args[at + 3]);
            System.out.println("{\"name\": %s, \"error\": %s}".formatted(Main.json(args[at]), Main.json(error)));
        }
        System.exit(0); // threads of a client that failed may hang
    }

    private static String attempt(String url, String user, String password) {
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        try (Connection connection = user.isEmpty()
                ? factory.createConnection()
                : factory.createConnection(user, password)) {
            connection.start();
            return "";
        } catch (JMSException e) {
            return e.toString();
        }
    }
}
