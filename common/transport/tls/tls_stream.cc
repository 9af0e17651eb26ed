#include "common/transport/tls/tls_stream.h"

#include <poll.h>

#include "common/base/status_macros.h"
#include "common/transport/tls/tls_record_key.h"

namespace muster {

TlsStream::~TlsStream() {
  // Best effort: the peer learns from the control connection that this end left in order.
  if (reader_.has_value() && reader_->farewell().has_value()) {
    writer_->SayFarewell(*reader_->farewell());
  }
}

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::Create(Descriptor socket, TlsRole role,
                                                             const std::string& key,
                                                             Deadline deadline,
                                                             TlsStreamOptions options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<TlsStream> stream,
                          Begin(std::move(socket), role, key, options));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const short events, stream->ShakeHands());
    if (events == 0) return stream;
    if (absl::Status status = deadline.status(); !status.ok()) {
      return deadline.interrupted().ok()
                 ? absl::UnavailableError("TLS handshake: no answer in time")
                 : status;
    }
    pollfd descriptor = {stream->descriptor(), events, 0};
    poll(&descriptor, 1, deadline.nap_milliseconds());
  }
}

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::Begin(Descriptor socket, TlsRole role,
                                                            const std::string& key,
                                                            TlsStreamOptions options) {
  MUSTER_RETURN_IF_ERROR(TlsRecordKey::CheckProcessor());
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), options));
  MUSTER_ASSIGN_OR_RETURN(stream->handshake_, TlsHandshake::Begin(stream->descriptor(), role, key));
  return stream;
}

absl::StatusOr<short> TlsStream::ShakeHands() {
  if (handshake_ == nullptr) return 0;
  MUSTER_ASSIGN_OR_RETURN(const short events, handshake_->Advance());
  if (events != 0) return events;
  const TlsSecrets& secrets = handshake_->secrets();
  writer_.emplace(descriptor(), secrets.sending, options_.records_per_key);
  reader_.emplace(descriptor(), secrets.receiving);
  handshake_.reset();
  return 0;
}

absl::StatusOr<size_t> TlsStream::Read(absl::Span<std::byte> out) {
  absl::StatusOr<size_t> read = reader_->Read(out);
  if (reader_->TakeKeyRequest()) writer_->ChangeKey();
  return read;
}

}  // namespace muster
