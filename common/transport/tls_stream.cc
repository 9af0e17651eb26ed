#include "common/transport/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/socket_stream.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr char kCipherSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr unsigned char kIdentity[] = "muster group";
// Records are collected up to here, and sent with one call.
constexpr size_t kBatchBytes = 128 << 10;

int KeySlot() {
  static const int slot = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return slot;
}

// The key as OpenSSL wants it: a session that never was.
SSL_SESSION* SessionOfKey(SSL* ssl) {
  const auto& key = *static_cast<const std::string*>(SSL_get_ex_data(ssl, KeySlot()));
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) != 1 ||
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipherId)) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int UseSession(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length,
               SSL_SESSION** session) {
  *session = SessionOfKey(ssl);
  *id = kIdentity;
  *id_length = sizeof(kIdentity);
  return *session != nullptr ? 1 : 0;
}

int FindSession(SSL* ssl, const unsigned char* id, size_t id_length, SSL_SESSION** session) {
  const bool known = id_length == sizeof(kIdentity) && std::equal(id, id + id_length, kIdentity);
  *session = known ? SessionOfKey(ssl) : nullptr;
  return 1;
}

std::string LibraryError() {
  const unsigned long error = ERR_get_error();
  char text[256] = "no reason given";
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  return text;
}

}  // namespace

void TlsStream::ContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
void TlsStream::SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

TlsStream::TlsStream(Descriptor socket, const std::string& key, TlsStreamOptions options)
    : options_(options), socket_(std::move(socket)), key_(key) {}

TlsStream::~TlsStream() {
  // Best effort: the peer learns from the control connection that this end left in order.
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get())) {
    SSL_shutdown(ssl_.get());
    SendRecords(Push::kNow).IgnoreError();
  }
  ERR_clear_error();
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
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), key, options));
  MUSTER_RETURN_IF_ERROR(stream->Prepare(role));
  return stream;
}

absl::Status TlsStream::Prepare(TlsRole role) {
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_method()));
  if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context_.get(), kCipherSuite) != 1) {
    return absl::InternalError(absl::StrCat("TLS: ", LibraryError()));
  }
  SSL_CTX_set_num_tickets(context_.get(), 0);
  SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context_.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A closed connection is an error of Read, whether or not TLS's own farewell came first.
  SSL_CTX_set_options(context_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_psk_use_session_callback(context_.get(), UseSession);
  SSL_CTX_set_psk_find_session_callback(context_.get(), FindSession);

  ssl_.reset(SSL_new(context_.get()));
  shared_.descriptor = socket_.get();
  BIO* const bio = NewTlsBio(shared_);
  if (ssl_ == nullptr || bio == nullptr || SSL_set_ex_data(ssl_.get(), KeySlot(), &key_) != 1) {
    BIO_free(bio);
    return absl::InternalError(absl::StrCat("TLS: ", LibraryError()));
  }
  SSL_set_bio(ssl_.get(), bio, bio);
  role == TlsRole::kClient ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  return absl::OkStatus();
}

absl::StatusOr<short> TlsStream::ShakeHands() {
  ERR_clear_error();
  if (const int result = SSL_do_handshake(ssl_.get()); result != 1) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return POLLIN;
      case SSL_ERROR_WANT_WRITE:
        return POLLOUT;
      case SSL_ERROR_SSL:
        return absl::UnauthenticatedError(absl::StrCat("TLS handshake: ", LibraryError()));
      default:
        return Failure("TLS handshake", result);
    }
  }
  // Without the key both sides would have needed a certificate, and there is none; make sure.
  if (SSL_session_reused(ssl_.get()) != 1) {
    return absl::UnauthenticatedError("TLS handshake: the pre-shared key was not used");
  }
  shared_.collects = true;
  shared_.encrypted.reserve(kBatchBytes + SSL3_RT_MAX_PACKET_SIZE);
  // The peer may have sent more than its handshake.
  drained_ = false;
  return 0;
}

absl::StatusOr<size_t> TlsStream::MakeRecord(absl::Span<const std::byte> bytes) {
  if (records_under_key_ == options_.records_per_key) {
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      return absl::InternalError(absl::StrCat("TLS key update: ", LibraryError()));
    }
    records_under_key_ = 0;
    ++key_changes_;
  }
  const int result = SSL_write(ssl_.get(), bytes.data(),
                               static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
  if (result <= 0) {
    MUSTER_RETURN_IF_ERROR(Failure("TLS write", result));
    return 0;
  }
  ++records_under_key_;
  return static_cast<size_t>(result);
}

absl::Status TlsStream::SendRecords(Push push) {
  std::vector<char>& encrypted = shared_.encrypted;
  size_t& begin = shared_.encrypted_begin;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (push == Push::kLater ? MSG_MORE : 0);
  while (begin < encrypted.size()) {
    const ssize_t sent =
        send(socket_.get(), encrypted.data() + begin, encrypted.size() - begin, flags);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return SystemError("TLS write");
      break;
    }
    begin += static_cast<size_t>(sent);
    held_back_ = push == Push::kLater;
  }
  while (!records_.empty() && records_.front().end <= begin) {
    begun_ -= records_.front().bytes;
    ahead_ += records_.front().bytes;
    records_.pop_front();
  }
  if (begin == encrypted.size()) {
    encrypted.clear();
    begin = 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TlsStream::Write(absl::Span<const std::byte> bytes, Push push) {
  if (bytes.empty()) return 0;
  ERR_clear_error();
  size_t written = 0;
  // In each round, what is offered begins with what is sent, then begun.
  while (true) {
    // Some of it may be no record of the caller's: OpenSSL answers and warns by itself.
    if (!shared_.encrypted.empty()) {
      const bool more = bytes.size() - written > ahead_ + begun_;
      MUSTER_RETURN_IF_ERROR(SendRecords(more ? Push::kLater : push));
    }
    const size_t taken = std::min(ahead_, bytes.size() - written);
    ahead_ -= taken;
    written += taken;
    if (!shared_.encrypted.empty() || written == bytes.size()) return written;
    while (begun_ < bytes.size() - written && shared_.encrypted.size() < kBatchBytes) {
      MUSTER_ASSIGN_OR_RETURN(const size_t length, MakeRecord(bytes.subspan(written + begun_)));
      if (length == 0) return written;
      records_.push_back({.bytes = length, .end = shared_.encrypted.size()});
      begun_ += length;
    }
  }
}

bool TlsStream::HasHiddenBytes() const {
  // Part of a record is there as well, and of no use; hence `drained_`.
  return !drained_ && (SSL_pending(ssl_.get()) > 0 || shared_.begin < shared_.end);
}

absl::Status TlsStream::Flush() {
  if (held_back_) PushTcp(socket_.get());
  held_back_ = false;
  return absl::OkStatus();
}

absl::StatusOr<size_t> TlsStream::Read(absl::Span<std::byte> out) {
  if (out.empty()) return 0;
  ERR_clear_error();
  const int result =
      SSL_read(ssl_.get(), out.data(), static_cast<int>(std::min<size_t>(out.size(), INT_MAX)));
  drained_ = result <= 0;
  if (result > 0) return static_cast<size_t>(result);
  MUSTER_RETURN_IF_ERROR(Failure("TLS read", result));
  return 0;
}

absl::Status TlsStream::Failure(const char* what, int result) {
  const int error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return absl::OkStatus();
    case SSL_ERROR_ZERO_RETURN:
      return absl::UnavailableError("the other end has closed the connection");
    case SSL_ERROR_SYSCALL:
      if (shared_.ended) return absl::UnavailableError("the other end has closed the connection");
      return SystemError(what, error);
    default:
      return absl::UnauthenticatedError(absl::StrCat(what, ": ", LibraryError()));
  }
}

}  // namespace muster
