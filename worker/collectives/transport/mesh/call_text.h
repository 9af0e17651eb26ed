#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CALL_TEXT_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CALL_TEXT_H_

#include <string>

#include "worker/collectives/transport/transport.h"

namespace muster {

// Returns a text about the last call of a rank that is gone, such as: its last call was number 17,
// all_reduce of 1024 ("bucket 3"), which had not ended. The state may be any bytes.
std::string LastCallText(const CallState& call);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CALL_TEXT_H_
