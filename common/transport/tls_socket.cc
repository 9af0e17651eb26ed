#include "common/transport/tls_socket.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster {
namespace {

// Several records with one call of recv.
constexpr size_t kReadBufferBytes = 128 << 10;

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
    ssize_t got = 0;
    do {
      got = recv(socket.descriptor, socket.received.data(), socket.received.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
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

}  // namespace

BIO* NewTlsBio(TlsSocket& socket) {
  BIO* const bio = BIO_new(SocketMethod());
  if (bio == nullptr) return nullptr;
  socket.received.resize(kReadBufferBytes);
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace muster
