#include "common/rpc/certificates_for_testing.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr long kHour = 3600;

void Extend(X509* certificate, X509* issuer, int extension, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str());
  if (made == nullptr) std::abort();
  X509_add_ext(certificate, made, -1);
  X509_EXTENSION_free(made);
}

// Without extensions and signature; valid from and to so many seconds from now.
X509* NewCertificate(const std::string& name, EVP_PKEY* key, long serial, long from, long to) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate), to);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate, key);
  return certificate;
}

template <typename Write>
std::string WriteFile(const std::string& path, Write write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr || write(file) != 1 || std::fclose(file) != 0) std::abort();
  return path;
}

}  // namespace

CertificatesForTesting::CertificatesForTesting(const std::string& folder, const std::string& name)
    : prefix_(absl::StrCat(folder, "/", name)),
      key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
      authority_(NewCertificate(name, key_.get(), serial_, -kHour, kHour), X509_free) {
  X509_set_issuer_name(authority_.get(), X509_get_subject_name(authority_.get()));
  Extend(authority_.get(), authority_.get(), NID_basic_constraints, "critical,CA:TRUE");
  Extend(authority_.get(), authority_.get(), NID_subject_key_identifier, "hash");
  X509_sign(authority_.get(), key_.get(), EVP_sha256());
}

CertificatesForTesting::~CertificatesForTesting() = default;

TlsFiles CertificatesForTesting::Issue(const std::string& process, Validity validity,
                                       const std::string& host, const std::string& use) {
  const long from = validity == Validity::kNotYet    ? kHour
                    : validity == Validity::kExpired ? -2 * kHour
                                                     : -kHour;
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      NewCertificate(process, key.get(), ++serial_, from,
                     validity == Validity::kExpired ? -kHour : 2 * kHour),
      X509_free);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(authority_.get()));
  Extend(certificate.get(), authority_.get(), NID_subject_alt_name, absl::StrCat("IP:", host));
  if (!use.empty()) Extend(certificate.get(), authority_.get(), NID_ext_key_usage, use);
  X509_sign(certificate.get(), key_.get(), EVP_sha256());

  const std::string path = absl::StrCat(prefix_, "-", process);
  TlsFiles files;
  files.authority = WriteFile(
      prefix_ + ".pem", [this](std::FILE* file) { return PEM_write_X509(file, authority_.get()); });
  files.certificate = WriteFile(
      path + ".pem", [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  files.key = WriteFile(path + ".key", [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  if (chmod(files.key.c_str(), S_IRUSR | S_IWUSR) != 0) std::abort();
  return files;
}

}  // namespace muster
