#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_

#include <memory>

#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/tls/tls_stream.h"

namespace muster {

// Returns a data channel's connection under TLS. Payloads are encrypted from where they lie and, in
// whole records, decrypted to where they belong; short spans share a record. REQUIRES: the
// handshake is done.
std::unique_ptr<ChannelStream> MakeTlsChannelStream(std::unique_ptr<TlsStream> stream);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_
