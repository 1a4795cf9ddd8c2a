module lockstep/failover

go 1.23.0

require (
	github.com/VoltDB/voltdb-client-go v1.0.18
	github.com/anishathalye/porcupine v1.0.2
)

require github.com/spaolacci/murmur3 v1.1.0 // indirect
