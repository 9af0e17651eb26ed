#include "common/rpc/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

template <auto release>
struct Releases {
  template <typename T>
  void operator()(T* object) const {
    release(object);
  }
};
using Certificate = std::unique_ptr<X509, Releases<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Releases<EVP_PKEY_free>>;
using MemoryBio = std::unique_ptr<BIO, Releases<BIO_free>>;
using Store = std::unique_ptr<X509_STORE, Releases<X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Releases<X509_STORE_CTX_free>>;

absl::StatusOr<std::string> ReadPem(const char* what, const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: no file is named for the ", what,
                     "; name those for authority, certificate and key, or none of the three"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 4096> part;
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: the ", what, " cannot be read from ", path,
                                                   "; name a file that this user may read"));
  }
  return text;
}

// Refuses a key that others may read, and so pass for this process, or write, and so decide whom it
// passes for. A file of root's may be readable by its group, as in Kubernetes' secrets.
absl::Status CheckKeyAccess(const std::string& path) {
  struct stat file;
  if (::stat(path.c_str(), &file) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: the key in ", path, " is gone"));
  }
  const mode_t refused = S_IRWXO | S_IWGRP | (file.st_uid == 0 ? 0 : S_IRGRP);
  if ((file.st_mode & refused) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "TLS: the key in %s may be %s by other users: its mode is %04o; run chmod 600 %s, and make a "
      "new key if others have been on this machine",
      path, (file.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "replaced" : "read", file.st_mode & 07777,
      path));
}

MemoryBio BioOf(const std::string& text) {
  return MemoryBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& text,
                                                           const char* what,
                                                           const std::string& path) {
  std::vector<Certificate> certificates;
  const MemoryBio bio = BioOf(text);
  while (X509* const each = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(each);
  }
  ERR_clear_error();
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: no certificate in PEM is in ", path, ", the file of the ", what));
  }
  return certificates;
}

// Never asks anybody for a password.
int NoPassword(char*, int, int, void*) { return -1; }

// Returns a time like "May  1 12:00:00 2026 GMT".
std::string Text(const ASN1_TIME* time) {
  const MemoryBio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

absl::Status CheckTime(const X509* certificate, const std::string& path) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("TLS: the certificate in ", path, " expired on ",
                     Text(X509_get0_notAfter(certificate)), "; renew it"));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "TLS: the certificate in ", path, " is valid from ", Text(X509_get0_notBefore(certificate)),
        " on; wait, or set this machine's clock"));
  }
  return absl::OkStatus();
}

// Checks that chain[0] comes from one of the authorities, by way of the others, and that all of
// them are for this purpose (X509_PURPOSE_SSL_...): what the other end of a connection checks.
absl::Status CheckOrigin(const std::vector<Certificate>& chain,
                         const std::vector<Certificate>& authorities, const TlsFiles& files,
                         int purpose) {
  const Store store(X509_STORE_new());
  for (const Certificate& each : authorities) X509_STORE_add_cert(store.get(), each.get());
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const Verification verification(X509_STORE_CTX_new());
  X509_STORE_CTX_init(verification.get(), store.get(), chain[0].get(), between);
  X509_STORE_CTX_set_purpose(verification.get(), purpose);
  const int result = X509_verify_cert(verification.get());
  const int error = X509_STORE_CTX_get_error(verification.get());
  sk_X509_free(between);
  ERR_clear_error();
  if (result == 1) return absl::OkStatus();
  if (error == X509_V_ERR_INVALID_PURPOSE) {
    const bool serves = purpose == X509_PURPOSE_SSL_SERVER;
    return absl::FailedPreconditionError(absl::StrCat(
        "TLS: the certificate in ", files.certificate, " is not for TLS ",
        serves ? "servers" : "clients", "; issue one whose extended key usage has ",
        serves ? "serverAuth and clientAuth, since a daemon is called and calls" : "clientAuth",
        ", or one without that extension"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "TLS: the certificate in ", files.certificate, " does not come from the authority in ",
      files.authority, ": ", X509_verify_cert_error_string(error),
      "; use the certificate and the authority of the same cluster"));
}

}  // namespace

absl::StatusOr<TlsIdentity> ReadTlsFiles(const TlsFiles& files, TlsUse use) {
  TlsIdentity identity;
  MUSTER_ASSIGN_OR_RETURN(identity.authority, ReadPem("authority", files.authority));
  MUSTER_ASSIGN_OR_RETURN(identity.certificate, ReadPem("certificate", files.certificate));
  MUSTER_ASSIGN_OR_RETURN(identity.key, ReadPem("key", files.key));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                          ParseCertificates(identity.authority, "authority", files.authority));
  MUSTER_ASSIGN_OR_RETURN(
      const std::vector<Certificate> chain,
      ParseCertificates(identity.certificate, "certificate", files.certificate));
  const Key key(PEM_read_bio_PrivateKey(BioOf(identity.key).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: no private key in PEM, without a password, is in ", files.key));
  }
  const bool belongs = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (!belongs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TLS: the key in ", files.key, " is not that of the certificate in ", files.certificate));
  }
  MUSTER_RETURN_IF_ERROR(CheckKeyAccess(files.key));
  MUSTER_RETURN_IF_ERROR(CheckTime(chain[0].get(), files.certificate));
  MUSTER_RETURN_IF_ERROR(CheckOrigin(chain, authorities, files, X509_PURPOSE_SSL_CLIENT));
  if (use == TlsUse::kCallsAndServes) {
    MUSTER_RETURN_IF_ERROR(CheckOrigin(chain, authorities, files, X509_PURPOSE_SSL_SERVER));
  }
  return identity;
}

}  // namespace muster
