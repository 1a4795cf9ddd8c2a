/** Its initializer fails with an error instead of an exception. */
public class MissingLibrary {
    static {
        System.loadLibrary("of-which-there-is-none");
    }
}
