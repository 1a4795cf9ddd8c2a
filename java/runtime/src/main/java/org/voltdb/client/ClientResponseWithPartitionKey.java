package org.voltdb.client;

/** The answer of one partition to a call on all of them. */
public class ClientResponseWithPartitionKey {
    public final Object partitionKey;
    public final ClientResponse response;
    public final int partitionId;

    public ClientResponseWithPartitionKey(Object partitionKey, ClientResponse response,
            int partitionId) {
        this.partitionKey = partitionKey;
        this.response = response;
        this.partitionId = partitionId;
    }
}
