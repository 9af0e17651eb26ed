#ifndef MUSTER_SERVER_PAGE_HTTP_CONNECTION_H_
#define MUSTER_SERVER_PAGE_HTTP_CONNECTION_H_

#include <openssl/types.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "httplib.h"

namespace muster {

class HttpConnection;

// The connections of a listener, and how many of them must make room for others. Thread-safe.
class HttpConnections {
 public:
  // Connections served at a time, each on its own thread.
  static constexpr size_t kServed = 32;

  // Counts a connection that is to be served. If no thread is free, ends another connection, the
  // oldest that waits for its client. Blocks while too many connections are there, unless closed.
  void Arrived();
  void Served();

  // `tls` is null for plain connections, and outlives the connection.
  std::list<HttpConnection>::iterator Add(int socket, SSL_CTX* tls);
  void Remove(std::list<HttpConnection>::iterator connection);

  // Marks a connection that waits for its client. False: it must end, since others wait.
  bool BeginWait(HttpConnection& connection);
  void EndWait(HttpConnection& connection);

  // Ends the waits of all connections, and lets none begin any more.
  void Close();

 private:
  bool TakesMoreLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  // Connections being served, oldest first.
  std::list<HttpConnection> connections_ ABSL_GUARDED_BY(mutex_);
  // Number of connections that have arrived and are not yet served to the end.
  size_t present_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of connections that must still end to make room.
  size_t owed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// One client's connection, plain or TLS, bounded in time and in the size of its request. Used by
// its own thread, except `waits`.
class HttpConnection final : public httplib::Stream {
 public:
  // Takes the socket over.
  HttpConnection(int socket, SSL_CTX* tls, HttpConnections& all);
  ~HttpConnection() override;

  // Makes the connection secure if it is to be; returns whether it may be used.
  bool Open();
  // Ends what the connection's thread waits for.
  void End();
  // Guarded by HttpConnections.
  bool waits = false;

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  // Bytes of a request.
  static constexpr size_t kMaxRequestBytes = 16 << 10;

  bool Poll(short event, std::chrono::steady_clock::duration patience) const;
  // Waits until the socket is ready; false: it must end, or its time is over.
  bool Await(short event) const;
  // Waits for what OpenSSL lacks to repeat a call that returned `result`; false: it has failed.
  bool AwaitTls(int result) const;
  // Appends to what came before, so that the buffer bounds the whole request.
  bool Fill();

  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  const int socket_;
  HttpConnections& all_;
  // Null: plain.
  std::unique_ptr<SSL, SslDeleter> ssl_;
  std::chrono::steady_clock::time_point until_;
  bool answering_ = false;
  std::array<char, kMaxRequestBytes> buffer_;
  size_t next_ = 0;
  size_t filled_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_HTTP_CONNECTION_H_
