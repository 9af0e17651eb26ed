#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_

#include <memory>

#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/tls/tls_stream.h"

namespace muster {

// A data channel's connection under TLS. A payload is encrypted from where it lies and decrypted
// within OpenSSL, whence it is copied to its place; short pieces share a record. REQUIRES: the
// handshake is done.
std::unique_ptr<ChannelStream> MakeTlsChannelStream(std::unique_ptr<TlsStream> stream);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_TLS_CHANNEL_STREAM_H_
