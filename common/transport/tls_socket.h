#ifndef MUSTER_COMMON_TRANSPORT_TLS_SOCKET_H_
#define MUSTER_COMMON_TRANSPORT_TLS_SOCKET_H_

#include <openssl/types.h>

#include <cstddef>
#include <vector>

namespace muster {

// What TlsStream and OpenSSL's input and output share.
struct TlsSocket {
  int descriptor = -1;
  // Whether records are collected in `encrypted`; during the handshake they are sent as they come.
  bool collects = false;
  // Records that are made and not yet the kernel's: from encrypted_begin on. A call of send for
  // each would cost more than the encryption.
  std::vector<char> encrypted;
  size_t encrypted_begin = 0;
  // The other end has closed.
  bool ended = false;
  // Received and not yet OpenSSL's: [begin, end). OpenSSL asks for a header and then for the
  // record; its own way of reading ahead moves all that is left with every record.
  std::vector<char> received;
  size_t begin = 0;
  size_t end = 0;
};

// OpenSSL's view of the socket, which its own would not do for: that raises SIGPIPE when the peer
// is gone. Null: no memory. The socket outlives it.
BIO* NewTlsBio(TlsSocket& socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_SOCKET_H_
