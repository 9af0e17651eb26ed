#include "common/transport/tls/tls_handshake.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr char kCipherSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherId[] = {0x13, 0x01};
constexpr unsigned char kIdentity[] = "muster group";

std::string LibraryError() {
  const unsigned long error = ERR_get_error();
  char text[256] = "no reason given";
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  return text;
}

}  // namespace

struct TlsHandshake::Callbacks {
  static int Slot() {
    static const int slot = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return slot;
  }
  static TlsHandshake& Of(const SSL* ssl) {
    return *static_cast<TlsHandshake*>(SSL_get_ex_data(ssl, Slot()));
  }

  // Returns the key as OpenSSL wants it: as a session, which never took place.
  static SSL_SESSION* SessionOfKey(SSL* ssl) {
    const std::string& key = Of(ssl).key_;
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

  static int UseSession(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length,
                        SSL_SESSION** session) {
    *session = SessionOfKey(ssl);
    *id = kIdentity;
    *id_length = sizeof(kIdentity);
    return *session != nullptr ? 1 : 0;
  }

  static int FindSession(SSL* ssl, const unsigned char* id, size_t id_length,
                         SSL_SESSION** session) {
    const bool known = id_length == sizeof(kIdentity) && std::equal(id, id + id_length, kIdentity);
    *session = known ? SessionOfKey(ssl) : nullptr;
    return 1;
  }

  static void TellSecret(const SSL* ssl, const char* line) { Of(ssl).NoteSecret(line); }

  // OpenSSL's own BIO for a socket raises SIGPIPE when the other side has gone.
  static int Send(BIO* bio, const char* bytes, int length) {
    const auto& handshake = *static_cast<TlsHandshake*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const ssize_t sent = send(handshake.socket_, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      BIO_set_retry_write(bio);
    }
    return static_cast<int>(sent);
  }

  // OpenSSL asks for a header, then for the record, and never for more than that.
  static int Receive(BIO* bio, char* bytes, int length) {
    auto& handshake = *static_cast<TlsHandshake*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const ssize_t got = recv(handshake.socket_, bytes, length, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      BIO_set_retry_read(bio);
    }
    handshake.ended_ = got == 0;
    return static_cast<int>(got);
  }

  static long Control(BIO* bio, int command, long, void*) {
    switch (command) {
      case BIO_CTRL_FLUSH:
        return 1;
      case BIO_CTRL_EOF:
        return static_cast<TlsHandshake*>(BIO_get_data(bio))->ended_ ? 1 : 0;
      default:
        return 0;
    }
  }

  static BIO* NewSocket(TlsHandshake* handshake) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
      BIO_meth_set_write(made, Send);
      BIO_meth_set_read(made, Receive);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    BIO* const bio = BIO_new(method);
    if (bio == nullptr) return nullptr;
    BIO_set_data(bio, handshake);
    BIO_set_init(bio, 1);
    return bio;
  }
};

void TlsHandshake::ContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
void TlsHandshake::SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

TlsHandshake::~TlsHandshake() {
  for (std::string* secret : {&key_, &secrets_.sending, &secrets_.receiving}) {
    OPENSSL_cleanse(secret->data(), secret->size());
  }
}

absl::StatusOr<std::unique_ptr<TlsHandshake>> TlsHandshake::Begin(int socket, TlsRole role,
                                                                  const std::string& key) {
  std::unique_ptr<TlsHandshake> handshake(new TlsHandshake(socket, role, key));
  MUSTER_RETURN_IF_ERROR(handshake->Prepare());
  return handshake;
}

absl::Status TlsHandshake::Prepare() {
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_method()));
  if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context_.get(), kCipherSuite) != 1) {
    return absl::InternalError(absl::StrCat("TLS: ", LibraryError()));
  }
  SSL_CTX_set_num_tickets(context_.get(), 0);
  SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context_.get(), Callbacks::UseSession);
  SSL_CTX_set_psk_find_session_callback(context_.get(), Callbacks::FindSession);
  SSL_CTX_set_keylog_callback(context_.get(), Callbacks::TellSecret);

  ssl_.reset(SSL_new(context_.get()));
  BIO* const bio = Callbacks::NewSocket(this);
  if (ssl_ == nullptr || bio == nullptr ||
      SSL_set_ex_data(ssl_.get(), Callbacks::Slot(), this) != 1) {
    BIO_free(bio);
    return absl::InternalError(absl::StrCat("TLS: ", LibraryError()));
  }
  SSL_set_bio(ssl_.get(), bio, bio);
  role_ == TlsRole::kClient ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  return absl::OkStatus();
}

void TlsHandshake::NoteSecret(absl::string_view line) {
  // Label, the connection's random number, secret.
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3) return;
  const bool clients = words[0] == "CLIENT_TRAFFIC_SECRET_0";
  if (!clients && words[0] != "SERVER_TRAFFIC_SECRET_0") return;
  const bool own = clients == (role_ == TlsRole::kClient);
  (own ? secrets_.sending : secrets_.receiving) = absl::HexStringToBytes(words[2]);
}

absl::StatusOr<short> TlsHandshake::Advance() {
  ERR_clear_error();
  if (const int result = SSL_do_handshake(ssl_.get()); result != 1) return Failure(result);
  // Makes sure that the key was used: without it a handshake needs a certificate, and there is
  // none.
  if (SSL_session_reused(ssl_.get()) != 1) {
    return absl::UnauthenticatedError("TLS handshake: the pre-shared key was not used");
  }
  if (secrets_.sending.empty() || secrets_.receiving.empty()) {
    return absl::InternalError("TLS handshake: OpenSSL does not tell its secrets");
  }
  return 0;
}

absl::StatusOr<short> TlsHandshake::Failure(int result) const {
  const int error = errno;
  if (ended_) return absl::UnavailableError("the other end has closed the connection");
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return POLLIN;
    case SSL_ERROR_WANT_WRITE:
      return POLLOUT;
    case SSL_ERROR_SYSCALL:
      return SystemError("TLS handshake", error);
    default:
      return absl::UnauthenticatedError(absl::StrCat("TLS handshake: ", LibraryError()));
  }
}

}  // namespace muster
