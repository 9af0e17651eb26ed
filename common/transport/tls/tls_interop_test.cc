// A TlsStream and OpenSSL understand each other, whoever begins.

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "common/transport/tls/tls_stream.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

const std::string kKey(32, 'k');
constexpr unsigned char kIdentity[] = "muster group";

// OpenSSL as it comes, with the key that TlsStream has.
class Peer {
 public:
  Peer(int socket, TlsRole role) : context_(SSL_CTX_new(TLS_method())) {
    SSL_CTX_set_psk_use_session_callback(context_, UseSession);
    SSL_CTX_set_psk_find_session_callback(context_, FindSession);
    SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket);
    role == TlsRole::kClient ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~Peer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  SSL* ssl() { return ssl_; }

  // How many bytes; 0: none now.
  size_t Checked(int result) {
    if (result > 0) return static_cast<size_t>(result);
    const int error = SSL_get_error(ssl_, result);
    EXPECT_TRUE(error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        << ERR_error_string(ERR_get_error(), nullptr);
    return 0;
  }

 private:
  static SSL_SESSION* Session(SSL* ssl) {
    constexpr unsigned char kCipher[] = {0x13, 0x01};
    SSL_SESSION* const session = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(kKey.data()),
                                kKey.size());
    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher));
    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    return session;
  }
  static int UseSession(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_length,
                        SSL_SESSION** session) {
    *session = Session(ssl);
    *id = kIdentity;
    *id_length = sizeof(kIdentity);
    return 1;
  }
  static int FindSession(SSL* ssl, const unsigned char*, size_t, SSL_SESSION** session) {
    *session = Session(ssl);
    return 1;
  }

  SSL_CTX* const context_;
  SSL* ssl_ = nullptr;
};

class TlsInteropTest : public testing::TestWithParam<TlsRole> {
 protected:
  void Connect(TlsStreamOptions options = {}) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    peers_socket_ = Descriptor(sockets[1]);
    auto stream = TlsStream::Begin(Descriptor(sockets[0]), GetParam(), kKey, options);
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    const bool is_client = GetParam() == TlsRole::kClient;
    peer_ = std::make_unique<Peer>(sockets[1], is_client ? TlsRole::kServer : TlsRole::kClient);
    bool done = false, peer_done = false;
    for (int turn = 0; turn < 10 && !(done && peer_done); ++turn) {
      if (!done) {
        const auto events = stream_->ShakeHands();
        ASSERT_TRUE(events.ok()) << events.status();
        done = *events == 0;
      }
      if (!peer_done) peer_done = peer_->Checked(SSL_do_handshake(peer_->ssl())) > 0;
    }
    ASSERT_TRUE(done && peer_done);
  }

  static std::vector<std::byte> Pattern(size_t bytes) {
    std::vector<std::byte> pattern(bytes);
    for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * i % 251);
    return pattern;
  }

  void SendToPeer(size_t bytes) {
    const std::vector<std::byte> sent = Pattern(bytes);
    std::vector<std::byte> got(bytes);
    for (size_t written = 0, read = 0; read < bytes;) {
      const auto taken =
          stream_->Write(absl::MakeConstSpan(sent).subspan(written), ByteStream::Push::kNow);
      ASSERT_TRUE(taken.ok()) << taken.status();
      written += *taken;
      read +=
          peer_->Checked(SSL_read(peer_->ssl(), got.data() + read, static_cast<int>(bytes - read)));
    }
    EXPECT_EQ(got, sent);
  }

  void ReceiveFromPeer(size_t bytes, size_t at_a_time) {
    const std::vector<std::byte> sent = Pattern(bytes);
    std::vector<std::byte> got(bytes);
    for (size_t written = 0, read = 0; read < bytes;) {
      if (written < bytes) {
        written += peer_->Checked(
            SSL_write(peer_->ssl(), sent.data() + written, static_cast<int>(bytes - written)));
      }
      ASSERT_FALSE(HasFailure());
      const auto arrived = stream_->Read(absl::MakeSpan(got).subspan(read, at_a_time));
      ASSERT_TRUE(arrived.ok()) << arrived.status();
      read += *arrived;
    }
    EXPECT_EQ(got, sent);
  }

  Descriptor peers_socket_;
  std::unique_ptr<TlsStream> stream_;
  std::unique_ptr<Peer> peer_;
};

TEST_P(TlsInteropTest, BytesPassBothWays) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  SendToPeer(3'000'000);
  ReceiveFromPeer(3'000'000, 1 << 20);
  // Less than a record, and records in part.
  ReceiveFromPeer(300'000, 1'000);
  ReceiveFromPeer(300'000, 20'000);
}

// The records' numbers take three bytes.
TEST_P(TlsInteropTest, ManyRecordsPassUnderOneKey) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  std::byte sent{}, got{};
  for (int i = 0; i < 70'000; ++i) {
    sent = static_cast<std::byte>(i % 251);
    ASSERT_EQ(stream_->Write({&sent, 1}, ByteStream::Push::kNow).value_or(0), 1u);
    ASSERT_EQ(peer_->Checked(SSL_read(peer_->ssl(), &got, 1)), 1u) << "record " << i;
    ASSERT_EQ(got, sent);
    ASSERT_EQ(peer_->Checked(SSL_write(peer_->ssl(), &sent, 1)), 1u);
    ASSERT_EQ(stream_->Read({&got, 1}).value_or(0), 1u) << "record " << i;
    ASSERT_EQ(got, sent);
  }
}

TEST_P(TlsInteropTest, PaddedRecordsAreRead) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  SSL_set_block_padding(peer_->ssl(), 4096);
  ReceiveFromPeer(100'000, 1 << 20);
  ReceiveFromPeer(100, 7);
}

TEST_P(TlsInteropTest, ItHearsWhyWeEnd) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  ASSERT_EQ(send(peers_socket_.get(), forged.data(), forged.size(), 0),
            static_cast<ssize_t>(forged.size()));
  std::byte byte;
  EXPECT_EQ(stream_->Read({&byte, 1}).status().code(), absl::StatusCode::kUnauthenticated);
  stream_.reset();
  EXPECT_LE(SSL_read(peer_->ssl(), &byte, 1), 0);
  EXPECT_EQ(ERR_GET_REASON(ERR_get_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
}

TEST_P(TlsInteropTest, OpenSslFollowsOurChangesOfKeys) {
  ASSERT_NO_FATAL_FAILURE(Connect({.records_per_key = 3}));
  SendToPeer(1'000'000);
  EXPECT_GE(stream_->key_changes(), 20u);
  ReceiveFromPeer(100'000, 1 << 20);
}

TEST_P(TlsInteropTest, WeFollowItsChangesOfKeys) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  for (int change = 1; change <= 3; ++change) {
    ASSERT_EQ(SSL_key_update(peer_->ssl(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ReceiveFromPeer(100'000, 1 << 20);
  }
  EXPECT_EQ(stream_->key_changes(), 0u);
  SendToPeer(1'000);
}

TEST_P(TlsInteropTest, WeChangeOursWhenAsked) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_EQ(SSL_key_update(peer_->ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
  ReceiveFromPeer(1'000, 1 << 20);
  SendToPeer(100'000);
  EXPECT_EQ(stream_->key_changes(), 1u);
  ReceiveFromPeer(1'000, 1 << 20);
  SendToPeer(1'000);
  EXPECT_EQ(stream_->key_changes(), 1u);
}

TEST_P(TlsInteropTest, ItsFarewellIsTheEnd) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const char word[] = "last";
  ASSERT_EQ(SSL_write(peer_->ssl(), word, sizeof(word)), static_cast<int>(sizeof(word)));
  SSL_shutdown(peer_->ssl());
  std::vector<std::byte> got(100);
  EXPECT_EQ(*stream_->Read(absl::MakeSpan(got)), sizeof(word));
  EXPECT_TRUE(stream_->HasHiddenBytes());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stream_->Read(absl::MakeSpan(got)).status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_P(TlsInteropTest, OursIsOneToIt) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  SendToPeer(10);
  stream_.reset();
  char byte;
  const int result = SSL_read(peer_->ssl(), &byte, 1);
  EXPECT_EQ(SSL_get_error(peer_->ssl(), result), SSL_ERROR_ZERO_RETURN);
}

INSTANTIATE_TEST_SUITE_P(Roles, TlsInteropTest, testing::Values(TlsRole::kClient, TlsRole::kServer),
                         [](const testing::TestParamInfo<TlsRole>& info) {
                           return info.param == TlsRole::kClient ? "AsClient" : "AsServer";
                         });

}  // namespace
}  // namespace muster
