#ifndef MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_KEY_H_
#define MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// The content types of a TLS 1.3 record (RFC 8446, section 5.1).
enum class TlsContent : uint8_t { kAlert = 21, kHandshake = 22, kApplicationData = 23 };

// The reasons why a side says no more (section 6).
enum class TlsAlert : uint8_t {
  kCloseNotify = 0,
  kUnexpectedMessage = 10,
  kBadRecordMac = 20,
  kRecordOverflow = 22,
};

inline constexpr size_t kTlsHeaderBytes = 5;
// The most bytes that one record carries.
inline constexpr size_t kTlsContentBytes = 16 << 10;
// Header, content type and tag.
inline constexpr size_t kTlsOverheadBytes = kTlsHeaderBytes + 1 + 16;
// The longest record, including padding, which other implementations may use (section 5.4).
inline constexpr size_t kTlsRecordBytes = kTlsContentBytes + kTlsOverheadBytes;

// Protects the records of one direction of a TLS 1.3 connection with TLS_AES_128_GCM_SHA256. Each
// record must be sealed or opened once, in order. The cipher is libipsec-mb's, which uses all that
// the processor has for it; OpenSSL 3.0's takes more than twice as long. Not thread-safe.
class TlsRecordKey {
 public:
  // FailedPrecondition: this processor lacks instructions that the cipher needs.
  static absl::Status CheckProcessor();

  // Derives the key from the handshake's secret. REQUIRES: secret.size() == 32; CheckProcessor().
  explicit TlsRecordKey(std::string secret);
  ~TlsRecordKey();
  TlsRecordKey(const TlsRecordKey&) = delete;
  TlsRecordKey& operator=(const TlsRecordKey&) = delete;

  // Writes `bytes` as the next record, and returns its length, kTlsOverheadBytes more. REQUIRES: at
  // most kTlsContentBytes, and room at `record`.
  size_t Seal(TlsContent content, absl::Span<const std::byte> bytes, std::byte* record);

  struct Opened {
    // A value of TlsContent, or another.
    uint8_t content = 0;
    size_t bytes = 0;
  };
  // Writes the next record's content to `out`, which has room for kTlsOverheadBytes less than the
  // record has; the rest of `out` is undefined. Unauthenticated: the other side did not make this
  // record; then `out` is undefined and the key unusable.
  absl::StatusOr<Opened> Open(absl::Span<const std::byte> record, std::byte* out);

  // Changes to the next key (section 7.2).
  void Advance();

  // Records sealed or opened under the present key.
  uint64_t records() const { return records_; }

 private:
  struct Cipher;
  using Nonce = std::array<uint8_t, 12>;

  void Derive();
  Nonce NextNonce();

  std::string secret_;
  std::unique_ptr<Cipher> cipher_;
  uint64_t records_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_KEY_H_
