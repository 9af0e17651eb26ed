#ifndef MUSTER_COMMON_TRANSPORT_DESCRIPTOR_H_
#define MUSTER_COMMON_TRANSPORT_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace muster {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }

  // -1: none.
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DESCRIPTOR_H_
