import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;

/** Queues: what is sent, in which order it comes, and to whom. */
final class QueueChecks {
    private static final int LARGE = 1 << 20;
    private static final int GROUPED = 24;

    private QueueChecks() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("send_and_receive", QueueChecks::sendAndReceive);
        checks.put("selector", QueueChecks::selector);
        checks.put("browser", QueueChecks::browser);
        checks.put("groups", QueueChecks::groups);
        checks.put("priority", QueueChecks::priority);
        checks.put("expiration", QueueChecks::expiration);
        checks.put("dead_letter", QueueChecks::deadLetter);
        checks.put("delayed_delivery", QueueChecks::delayedDelivery);
        checks.put("large", QueueChecks::large);
        checks.put("prefetch_zero", QueueChecks::prefetchZero);
        checks.put("anonymous_producer", QueueChecks::anonymousProducer);
        checks.put("temporary_queue", QueueChecks::temporaryQueue);
        checks.put("unknown_queue", QueueChecks::unknownQueue);
    }

    private static String sendAndReceive(Scene scene) throws JMSException {
        Session session = scene.session();
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        String[] texts = new String[200];
        Arrays.setAll(texts, number -> "text " + number);
        Scene.send(session, scene.queue(session), texts);
        Scene.expect(consumer, texts);
        Scene.expectNothing(consumer);
        return "";
    }

    private static String selector(Scene scene) throws JMSException {
        Session session = scene.session();
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            for (int number = 0; number < 6; number++) {
                Message message = session.createTextMessage("" + number);
                message.setIntProperty("number", number);
                message.setStringProperty("kind", number % 2 == 0 ? "even" : "odd");
                producer.send(message);
            }
        }
        try (MessageConsumer some = session.createConsumer(scene.queue(session), "kind = 'odd' AND number > 1")) {
            Scene.expect(some, "3", "5");
            Scene.expectNothing(some);
        }
        MessageConsumer rest = session.createConsumer(scene.queue(session));
        Scene.expect(rest, "0", "1", "2", "4");
        Scene.expectNothing(rest);
        return "";
    }

    private static String browser(Scene scene) throws JMSException {
        Session session = scene.session();
        Scene.send(session, scene.queue(session), "one", "two", "three");
        for (int turn = 0; turn < 2; turn++) {
            try (QueueBrowser browser = session.createBrowser(scene.queue(session))) {
                StringBuilder found = new StringBuilder();
                Enumeration<?> all = browser.getEnumeration();
                while (all.hasMoreElements()) found.append(Scene.text((Message) all.nextElement())).append(' ');
                Scene.same("browsed", "one two three ", found.toString());
            }
        }
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "one", "two", "three");
        Scene.expectNothing(consumer);
        return "";
    }

    /** All messages of a group go to one consumer, in order, and each consumer of two gets some groups. */
    private static String groups(Scene scene) throws JMSException {
        Session sending = scene.session();
        Session[] sessions = {scene.session(), scene.session()};
        MessageConsumer[] consumers = new MessageConsumer[2];
        for (int i = 0; i < 2; i++) consumers[i] = sessions[i].createConsumer(scene.queue(sessions[i]));
        try (MessageProducer producer = sending.createProducer(scene.queue(sending))) {
            for (int number = 0; number < GROUPED; number++) {
                Message message = sending.createTextMessage("" + number);
                message.setStringProperty("JMSXGroupID", "group " + number % 4);
                message.setIntProperty("JMSXGroupSeq", 1 + number / 4);
                producer.send(message);
            }
        }
        List<TreeSet<String>> groups = groupsOf(consumers);
        TreeSet<String> both = new TreeSet<>(groups.get(0));
        both.addAll(groups.get(1));
        Scene.same("groups", 4, both.size());
        Scene.same("groups, counted for each consumer", 4, groups.get(0).size() + groups.get(1).size());
        return "";
    }

    private static List<TreeSet<String>> groupsOf(MessageConsumer[] consumers) throws JMSException {
        List<TreeSet<String>> groups = List.of(new TreeSet<>(), new TreeSet<>());
        int[] last = {-1, -1};
        int count = 0;
        long end = System.currentTimeMillis() + Scene.DEADLINE_MS;
        while (count < GROUPED && System.currentTimeMillis() < end) {
            for (int i = 0; i < 2; i++) {
                Message message = consumers[i].receive(20);
                if (message == null) continue;
                count++;
                groups.get(i).add(message.getStringProperty("JMSXGroupID"));
                int number = Integer.parseInt(Scene.text(message));
                if (number < last[i]) throw new AssertionError(number + " behind " + last[i]);
                last[i] = number;
            }
        }
        Scene.same("messages", GROUPED, count);
        for (MessageConsumer consumer : consumers) Scene.expectNothing(consumer);
        return groups;
    }

    private static String priority(Scene scene) throws JMSException {
        Session session = scene.session();
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            for (int level : new int[] {1, 9, 4, 7}) {
                producer.send(session.createTextMessage("" + level), DeliveryMode.PERSISTENT, level, 0);
            }
        }
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        for (int level : new int[] {9, 7, 4, 1}) {
            Message message = Scene.next(consumer);
            Scene.same("priority", level, message.getJMSPriority());
            Scene.same("text", "" + level, Scene.text(message));
        }
        return "";
    }

    /** A message that lives for 1 ms is gone; one that lives for an hour says so. */
    private static String expiration(Scene scene) throws JMSException {
        Session session = scene.session();
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 1);
            producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 3_600_000);
        }
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Message alive = Scene.next(consumer);
        Scene.same("text", "long", Scene.text(alive));
        long left = alive.getJMSExpiration() - System.currentTimeMillis();
        if (left < 3_000_000 || left > 3_600_000) throw new AssertionError("expires in " + left + " ms");
        Scene.expectNothing(consumer);
        return "";
    }

    /** The broker takes a message away that was given back as often as the queue allows. */
    private static String deadLetter(Scene scene) throws JMSException {
        Session session = scene.connect().createSession(Session.SESSION_TRANSACTED);
        Scene.send(session, scene.queue(session), "poison", "good");
        session.commit();
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        StringBuilder seen = new StringBuilder();
        for (int turn = 0; turn < 10; turn++) {
            Message message = Scene.next(consumer);
            seen.append(Scene.text(message)).append(message.getIntProperty("JMSXDeliveryCount")).append(' ');
            if (Scene.text(message).equals("good")) break;
            session.rollback();
        }
        session.commit();
        Scene.expect(session.createConsumer(scene.queue(session, "dead")), "poison");
        session.commit();
        return seen.toString();
    }

    private static String delayedDelivery(Scene scene) throws JMSException {
        Session session = scene.session();
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        long sent = System.currentTimeMillis();
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            producer.setDeliveryDelay(500);
            producer.send(session.createTextMessage("later"));
            producer.setDeliveryDelay(0);
            producer.send(session.createTextMessage("at once"));
        }
        Scene.expect(consumer, "at once");
        Message later = Scene.next(consumer);
        Scene.same("text", "later", Scene.text(later));
        long passed = System.currentTimeMillis() - sent;
        if (passed < 500) throw new AssertionError("came after " + passed + " ms");
        if (later.getJMSDeliveryTime() < sent + 500) throw new AssertionError("delivery time " + later.getJMSDeliveryTime());
        return "";
    }

    private static String large(Scene scene) throws JMSException {
        Session session = scene.session();
        byte[] sent = new byte[LARGE];
        new Random(1).nextBytes(sent);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(sent);
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            producer.send(message);
        }
        BytesMessage received = (BytesMessage) Scene.next(session.createConsumer(scene.queue(session)));
        byte[] found = new byte[(int) received.getBodyLength()];
        received.readBytes(found);
        Scene.same("body", true, Arrays.equals(sent, found));
        return "";
    }

    /** Without prefetch each receive asks for one message, and receiveNoWait learns at once that there is none. */
    private static String prefetchZero(Scene scene) throws JMSException {
        Session session = scene.connectWith("&jms.prefetchPolicy.all=0").createSession();
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expectNothing(consumer);
        Scene.same("received within 50 ms", null, consumer.receive(50));
        Scene.send(session, scene.queue(session), "one", "two", "three");
        Session other = scene.session();
        Scene.expect(consumer, "one");
        try (MessageConsumer rest = other.createConsumer(scene.queue(other))) {
            Scene.expect(rest, "two", "three"); // nothing was taken in advance
        }
        Scene.expectNothing(consumer);
        Scene.send(session, scene.queue(session), "four");
        Scene.expect(consumer, "four");
        return "";
    }

    private static String anonymousProducer(Scene scene) throws JMSException {
        Session session = scene.session();
        try (MessageProducer producer = session.createProducer(null)) {
            for (int number = 0; number < 20; number++) {
                producer.send(scene.queue(session, number % 2 == 0 ? "even" : "odd"), session.createTextMessage("" + number));
            }
        }
        MessageConsumer even = session.createConsumer(scene.queue(session, "even"));
        MessageConsumer odd = session.createConsumer(scene.queue(session, "odd"));
        for (int number = 0; number < 20; number++) Scene.expect(number % 2 == 0 ? even : odd, "" + number);
        return "";
    }

    /** A request with a temporary queue for replies; it is gone when it is deleted. */
    private static String temporaryQueue(Scene scene) throws JMSException {
        Session asking = scene.session();
        Session answering = scene.session();
        TemporaryQueue replies = asking.createTemporaryQueue();
        MessageConsumer requests = answering.createConsumer(scene.queue(answering));
        try (MessageProducer producer = asking.createProducer(scene.queue(asking))) {
            Message request = asking.createTextMessage("question");
            request.setJMSReplyTo(replies);
            producer.send(request);
        }
        Message request = Scene.next(requests);
        Scene.same("replyTo", replies.getQueueName(), ((jakarta.jms.Queue) request.getJMSReplyTo()).getQueueName());
        Scene.send(answering, request.getJMSReplyTo(), "answer");
        MessageConsumer consumer = asking.createConsumer(replies);
        Scene.expect(consumer, "answer");
        consumer.close();
        replies.delete();
        try {
            Scene.send(answering, request.getJMSReplyTo(), "too late");
        } catch (JMSException e) {
            return e.getClass().getSimpleName();
        }
        throw new AssertionError("the temporary queue is still there");
    }

    private static String unknownQueue(Scene scene) throws JMSException {
        Session session = scene.session();
        StringBuilder seen = new StringBuilder();
        try {
            session.createConsumer(scene.queue(session, "nowhere"));
            throw new AssertionError("a consumer of a queue that is not there");
        } catch (JMSException e) {
            seen.append(e.getClass().getSimpleName()).append(' ').append(e.getMessage());
        }
        try {
            session.createProducer(scene.queue(session, "nowhere"));
            throw new AssertionError("a producer to a queue that is not there");
        } catch (JMSException e) {
            seen.append("; ").append(e.getClass().getSimpleName()).append(' ').append(e.getMessage());
        }
        return seen.toString();
    }
}
