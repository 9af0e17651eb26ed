#include "common/transport/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
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
// Several records with one call of recv.
constexpr size_t kReadBufferBytes = 128 << 10;
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

// OpenSSL's view of the socket. Its own would raise SIGPIPE when the peer is gone.
int BioWrite(BIO* bio, const char* bytes, int length) {
  auto& socket = *static_cast<TlsSocket*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (socket.collects) {
    socket.encrypted.insert(socket.encrypted.end(), bytes, bytes + length);
    return length;
  }
  const ssize_t sent = send(socket.descriptor, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(sent);
}

int BioRead(BIO* bio, char* bytes, int length) {
  auto& socket = *static_cast<TlsSocket*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (socket.begin == socket.end) {
    const ssize_t got =
        recv(socket.descriptor, socket.received.data(), socket.received.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      BIO_set_retry_read(bio);
    }
    socket.ended = got == 0;
    if (got <= 0) return static_cast<int>(got);
    socket.begin = 0;
    socket.end = static_cast<size_t>(got);
  }
  const size_t taken = std::min(static_cast<size_t>(length), socket.end - socket.begin);
  std::memcpy(bytes, socket.received.data() + socket.begin, taken);
  socket.begin += taken;
  return static_cast<int>(taken);
}

long BioControl(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return static_cast<TlsSocket*>(BIO_get_data(bio))->ended ? 1 : 0;
    default:
      return 0;
  }
}

BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
    BIO_meth_set_write(made, BioWrite);
    BIO_meth_set_read(made, BioRead);
    BIO_meth_set_ctrl(made, BioControl);
    return made;
  }();
  return method;
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

TlsStream::TlsStream(Descriptor socket, const std::string& key)
    : socket_(std::move(socket)), key_(key) {}

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
                                                             Deadline deadline) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(socket), key));
  MUSTER_RETURN_IF_ERROR(stream->ShakeHands(role, deadline));
  return stream;
}

absl::Status TlsStream::ShakeHands(TlsRole role, Deadline deadline) {
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
  BIO* const bio = BIO_new(SocketMethod());
  if (ssl_ == nullptr || bio == nullptr || SSL_set_ex_data(ssl_.get(), KeySlot(), &key_) != 1) {
    BIO_free(bio);
    return absl::InternalError(absl::StrCat("TLS: ", LibraryError()));
  }
  shared_.descriptor = socket_.get();
  shared_.received.resize(kReadBufferBytes);
  BIO_set_data(bio, &shared_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  role == TlsRole::kClient ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  while (true) {
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) break;
    const int reason = SSL_get_error(ssl_.get(), result);
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE) {
      if (reason == SSL_ERROR_SSL) {
        return absl::UnauthenticatedError(absl::StrCat("TLS handshake: ", LibraryError()));
      }
      return Failure("TLS handshake", result);
    }
    if (absl::Status status = deadline.status(); !status.ok()) {
      return deadline.interrupted().ok()
                 ? absl::UnavailableError("TLS handshake: no answer in time")
                 : status;
    }
    pollfd descriptor = {socket_.get(),
                         static_cast<short>(reason == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    poll(&descriptor, 1, deadline.nap_milliseconds());
  }
  // Without the key both sides would have needed a certificate, and there is none; make sure.
  if (SSL_session_reused(ssl_.get()) != 1) {
    return absl::UnauthenticatedError("TLS handshake: the pre-shared key was not used");
  }
  shared_.collects = true;
  shared_.encrypted.reserve(kBatchBytes + SSL3_RT_MAX_PACKET_SIZE);
  return absl::OkStatus();
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
      const absl::Span<const std::byte> rest = bytes.subspan(written + begun_);
      const int result = SSL_write(ssl_.get(), rest.data(),
                                   static_cast<int>(std::min<size_t>(rest.size(), INT_MAX)));
      if (result <= 0) {
        MUSTER_RETURN_IF_ERROR(Failure("TLS write", result));
        return written;
      }
      const auto length = static_cast<size_t>(result);
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
