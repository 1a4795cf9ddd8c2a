// One way of calling procedures: the tests are written once and run through each of them.
package lockstep.drivers;

import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** A connected client. A failed call is a response with its status, never an exception. */
public interface Caller extends AutoCloseable {
    /** One call and its response. */
    ClientResponse call(String procedure, Object... parameters) throws Exception;

    /** One call for each partition. */
    ClientResponseWithPartitionKey[] callAllPartitions(String procedure, Object... parameters)
            throws Exception;

    @Override
    void close() throws Exception;
}
