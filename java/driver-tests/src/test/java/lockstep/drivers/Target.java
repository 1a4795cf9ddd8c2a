// Where the server under test is: from the system properties that run.py sets.
package lockstep.drivers;

/** The server's address, its admin port and its number of sites. */
final class Target {
    private Target() {}

    /** Host and port for clients. */
    static String server() {
        return System.getProperty("lockstep.server", "127.0.0.1:21212");
    }

    /** Host and port for administrators. */
    static String admin() {
        return System.getProperty("lockstep.admin", "127.0.0.1:21211");
    }

    /** How many sites, and so partitions, the server has. */
    static int sites() {
        return Integer.getInteger("lockstep.sites", 1);
    }

    /** The port of a HOST:PORT. */
    static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** The host of a HOST:PORT. */
    static String host(String address) {
        return address.substring(0, address.lastIndexOf(':'));
    }
}
