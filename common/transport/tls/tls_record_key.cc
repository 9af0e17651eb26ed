#include "common/transport/tls/tls_record_key.h"

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/transport/keyed_hash.h"

namespace muster {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kKeyBytes = 16;
constexpr size_t kTagBytes = 16;
// Shorter records are copied to have content and type in one place. They take one call of the
// library instead of four: each call notes its success in one variable of the whole process.
constexpr size_t kShortBytes = 1024;

// Returns the library's functions for this processor, which keep nothing of a record between calls;
// null: there are none.
const IMB_MGR* Functions() {
  static const IMB_MGR* const functions = []() -> const IMB_MGR* {
    IMB_MGR* const made = alloc_mb_mgr(0);
    if (made == nullptr) return nullptr;
    init_mb_mgr_auto(made, nullptr);
    if (imb_get_errno(made) == 0) return made;
    free_mb_mgr(made);
    return nullptr;
  }();
  return functions;
}

// Returns HKDF-Expand-Label (section 7.1) without context: `bytes` bytes, and more behind them.
std::string Expand(absl::string_view secret, absl::string_view label, size_t bytes) {
  const std::string full_label = absl::StrCat("tls13 ", label);
  const std::string info = absl::StrCat(
      std::string{'\0', static_cast<char>(bytes), static_cast<char>(full_label.size())}, full_label,
      std::string{'\0', '\1'});
  return KeyedHash(secret, info);
}

void Cleanse(std::string& text) { OPENSSL_cleanse(text.data(), text.size()); }

const uint8_t* Bytes(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }
uint8_t* Bytes(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }

}  // namespace

struct TlsRecordKey::Cipher {
  ~Cipher() {
    OPENSSL_cleanse(&key, sizeof(key));
    OPENSSL_cleanse(&record, sizeof(record));
    OPENSSL_cleanse(&first_nonce, sizeof(first_nonce));
  }

  alignas(64) gcm_key_data key;
  // The record at hand.
  gcm_context_data record;
  Nonce first_nonce;
};

absl::Status TlsRecordKey::CheckProcessor() {
  if (Functions() != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "TLS needs a processor with AES and carry-less multiplication (AES-NI, PCLMULQDQ); a virtual "
      "machine may have to be told to show them");
}

TlsRecordKey::TlsRecordKey(std::string secret)
    : secret_(std::move(secret)), cipher_(std::make_unique<Cipher>()) {
  if (secret_.size() != kSecretBytes) std::abort();
  Derive();
}

TlsRecordKey::~TlsRecordKey() { Cleanse(secret_); }

void TlsRecordKey::Derive() {
  std::string key = Expand(secret_, "key", kKeyBytes);
  IMB_AES128_GCM_PRE(Functions(), key.data(), &cipher_->key);
  Cleanse(key);
  const std::string nonce = Expand(secret_, "iv", sizeof(Nonce));
  std::memcpy(cipher_->first_nonce.data(), nonce.data(), sizeof(Nonce));
  records_ = 0;
}

void TlsRecordKey::Advance() {
  std::string next = Expand(secret_, "traffic upd", kSecretBytes);
  secret_.swap(next);
  Cleanse(next);
  Derive();
}

TlsRecordKey::Nonce TlsRecordKey::NextNonce() {
  Nonce nonce = cipher_->first_nonce;
  for (size_t i = 0; i < sizeof(records_); ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<uint8_t>(records_ >> (8 * i));
  }
  ++records_;
  return nonce;
}

size_t TlsRecordKey::Seal(TlsContent content, absl::Span<const std::byte> bytes,
                          std::byte* record) {
  const size_t length = bytes.size() + kTlsOverheadBytes - kTlsHeaderBytes;
  // On the outside, all records are application data of TLS 1.2.
  const uint8_t header[kTlsHeaderBytes] = {23, 3, 3, static_cast<uint8_t>(length >> 8),
                                           static_cast<uint8_t>(length)};
  std::memcpy(record, header, kTlsHeaderBytes);
  const Nonce nonce = NextNonce();
  const auto type = static_cast<uint8_t>(content);
  uint8_t* const text = Bytes(record) + kTlsHeaderBytes;
  uint8_t* const last = text + bytes.size();
  Cipher& cipher = *cipher_;
  if (bytes.size() < kShortBytes) {
    std::copy(bytes.begin(), bytes.end(), record + kTlsHeaderBytes);
    *last = type;
    IMB_AES128_GCM_ENC(Functions(), &cipher.key, &cipher.record, text, text, bytes.size() + 1,
                       nonce.data(), header, kTlsHeaderBytes, last + 1, kTagBytes);
  } else {
    IMB_AES128_GCM_INIT(Functions(), &cipher.key, &cipher.record, nonce.data(), header,
                        kTlsHeaderBytes);
    IMB_AES128_GCM_ENC_UPDATE(Functions(), &cipher.key, &cipher.record, text, Bytes(bytes.data()),
                              bytes.size());
    IMB_AES128_GCM_ENC_UPDATE(Functions(), &cipher.key, &cipher.record, last, &type, 1);
    IMB_AES128_GCM_ENC_FINALIZE(Functions(), &cipher.key, &cipher.record, last + 1, kTagBytes);
  }
  return kTlsHeaderBytes + length;
}

absl::StatusOr<TlsRecordKey::Opened> TlsRecordKey::Open(absl::Span<const std::byte> record,
                                                        std::byte* out) {
  if (record.size() < kTlsOverheadBytes) {
    return absl::UnauthenticatedError(absl::StrCat("a TLS record of ", record.size(), " bytes"));
  }
  const Nonce nonce = NextNonce();
  const uint8_t* const header = Bytes(record.data());
  const uint8_t* const text = header + kTlsHeaderBytes;
  Opened opened{.content = 0, .bytes = record.size() - kTlsOverheadBytes};
  const uint8_t* const last = text + opened.bytes;
  uint8_t tag[kTagBytes];
  Cipher& cipher = *cipher_;
  if (opened.bytes < kShortBytes) {
    uint8_t opened_text[kShortBytes];
    IMB_AES128_GCM_DEC(Functions(), &cipher.key, &cipher.record, opened_text, text,
                       opened.bytes + 1, nonce.data(), header, kTlsHeaderBytes, tag, kTagBytes);
    if (opened.bytes > 0) std::memcpy(out, opened_text, opened.bytes);
    opened.content = opened_text[opened.bytes];
  } else {
    IMB_AES128_GCM_INIT(Functions(), &cipher.key, &cipher.record, nonce.data(), header,
                        kTlsHeaderBytes);
    IMB_AES128_GCM_DEC_UPDATE(Functions(), &cipher.key, &cipher.record, Bytes(out), text,
                              opened.bytes);
    IMB_AES128_GCM_DEC_UPDATE(Functions(), &cipher.key, &cipher.record, &opened.content, last, 1);
    IMB_AES128_GCM_DEC_FINALIZE(Functions(), &cipher.key, &cipher.record, tag, kTagBytes);
  }
  if (CRYPTO_memcmp(tag, last + 1, kTagBytes) != 0) {
    return absl::UnauthenticatedError("a TLS record that the other side has not made");
  }
  // Padding is zeros behind the type.
  while (opened.content == 0) {
    if (opened.bytes == 0) {
      return absl::UnauthenticatedError("a TLS record of nothing but padding");
    }
    opened.content = static_cast<uint8_t>(out[--opened.bytes]);
  }
  return opened;
}

}  // namespace muster
