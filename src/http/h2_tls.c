/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for HTTP/2, by libssl, which is loaded when it is needed.
 */
#include "http/h2.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#define TLS_FUNCTIONS(X)              \
	X(SSL_CTX_check_private_key)  \
	X(SSL_CTX_ctrl)               \
	X(SSL_CTX_free)               \
	X(SSL_CTX_new)                \
	X(SSL_CTX_set_alpn_select_cb) \
	X(SSL_CTX_use_PrivateKey)     \
	X(SSL_CTX_use_certificate)    \
	X(SSL_free)                   \
	X(SSL_get0_alpn_selected)     \
	X(SSL_get_error)              \
	X(SSL_is_init_finished)       \
	X(SSL_new)                    \
	X(SSL_read)                   \
	X(SSL_select_next_proto)      \
	X(SSL_set_accept_state)       \
	X(SSL_set_fd)                 \
	X(SSL_write)                  \
	X(TLS_server_method)

/* Of libcrypto. */
#define PEM_FUNCTIONS(X)           \
	X(BIO_free)                \
	X(BIO_new_mem_buf)         \
	X(ERR_clear_error)         \
	X(EVP_PKEY_free)           \
	X(PEM_read_bio_PrivateKey) \
	X(PEM_read_bio_X509)       \
	X(X509_free)

static struct {
	TLS_FUNCTIONS(LAZY_FIELD)
} ssl;
static struct {
	PEM_FUNCTIONS(LAZY_FIELD)
} pem;

struct h2_tls {
	SSL_CTX *ctx;
};

static int tls_load(struct err *err)
{
	static const char *const ssl_names[] = { TLS_FUNCTIONS(LAZY_NAME) };
	static const char *const pem_names[] = { PEM_FUNCTIONS(LAZY_NAME) };
	static struct lazy ssl_lib = LAZY_INIT, pem_lib = LAZY_INIT;

	if (lazy_load(&pem_lib, "libcrypto.so.3", "libssl3", pem_names, &pem, ARRAY_SIZE(pem_names), err) < 0)
		return -1;
	return lazy_load(&ssl_lib, "libssl.so.3", "libssl3", ssl_names, &ssl, ARRAY_SIZE(ssl_names), err);
}

/* A client that offers other protocols alone is refused: nothing else is spoken here. */
static int on_alpn(SSL *s, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
		   unsigned in_size, void *arg)
{
	static const unsigned char h2[] = "\2h2";

	return ssl.SSL_select_next_proto((unsigned char **)out, out_size, h2, sizeof(h2) - 1, in, in_size) ==
			       OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The first certificate is the server's; those after it are sent along. */
static bool use_certificates(SSL_CTX *ctx, const struct buf *text)
{
	BIO *bio = pem.BIO_new_mem_buf(text->p, (int)text->size);
	bool first = true, ok = bio;
	X509 *x;

	while (ok && (x = pem.PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		if (first)
			ok = ssl.SSL_CTX_use_certificate(ctx, x) == 1;
		else
			ok = ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_EXTRA_CHAIN_CERT, 0, x) == 1;
		/* The context takes those of the chain. */
		if (first || !ok)
			pem.X509_free(x);
		first = false;
	}
	pem.BIO_free(bio);
	pem.ERR_clear_error(); /* the end of the text is one */
	return ok && !first;
}

static bool use_key(SSL_CTX *ctx, const struct buf *text)
{
	BIO *bio = pem.BIO_new_mem_buf(text->p, (int)text->size);
	EVP_PKEY *key = bio ? pem.PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	bool ok = key && ssl.SSL_CTX_use_PrivateKey(ctx, key) == 1 && ssl.SSL_CTX_check_private_key(ctx) == 1;

	pem.EVP_PKEY_free(key);
	pem.BIO_free(bio);
	pem.ERR_clear_error();
	return ok;
}

int h2_tls_new(const struct http_shared *shared, struct h2_tls **ret, struct err *err)
{
	SSL_CTX *ctx;

	if (tls_load(err) < 0)
		return -1;
	ctx = ssl.SSL_CTX_new(ssl.TLS_server_method());
	if (!ctx)
		return err_set(err, ERR_LIMIT, "no memory for TLS");
	ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
	ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_MODE,
			 SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
			 NULL);
	ssl.SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	if (!use_certificates(ctx, &shared->cert) || !use_key(ctx, &shared->key)) {
		ssl.SSL_CTX_free(ctx);
		return err_set(err, ERR_INVALID,
			       "certificate or key are not valid, or do not belong together");
	}
	*ret = NEW(struct h2_tls);
	(*ret)->ctx = ctx;
	return 0;
}

void h2_tls_free(struct h2_tls *t)
{
	if (!t)
		return;
	ssl.SSL_CTX_free(t->ctx);
	free(t);
}

void *h2_tls_accept(struct h2_tls *t, int fd)
{
	SSL *s = ssl.SSL_new(t->ctx);

	if (s && ssl.SSL_set_fd(s, fd) != 1) {
		ssl.SSL_free(s);
		return NULL;
	}
	if (s)
		ssl.SSL_set_accept_state(s);
	return s;
}

bool h2_tls_is_ready(void *tls)
{
	return ssl.SSL_is_init_finished(tls);
}

void h2_tls_close(void *tls)
{
	if (tls)
		ssl.SSL_free(tls);
}

/* In the words of read(): 0 is the end. */
static ssize_t tls_result(SSL *s, int n)
{
	if (n > 0)
		return n;
	switch (ssl.SSL_get_error(s, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		pem.ERR_clear_error();
		errno = EPROTO;
		return -1;
	}
}

/* Has it agreed on HTTP/2? A client without ALPN has not. */
static bool speaks_h2(SSL *s)
{
	const unsigned char *name;
	unsigned size;

	if (!ssl.SSL_is_init_finished(s))
		return true;
	ssl.SSL_get0_alpn_selected(s, &name, &size);
	return size == 2 && memcmp(name, "h2", 2) == 0;
}

ssize_t h2_tls_read(void *tls, void *buf, size_t size)
{
	ssize_t n;

	pem.ERR_clear_error();
	n = tls_result(tls, ssl.SSL_read(tls, buf, (int)MIN(size, (size_t)INT32_MAX)));
	if (speaks_h2(tls))
		return n;
	errno = EPROTO;
	return -1;
}

ssize_t h2_tls_write(void *tls, const void *buf, size_t size)
{
	pem.ERR_clear_error();
	return tls_result(tls, ssl.SSL_write(tls, buf, (int)MIN(size, (size_t)INT32_MAX)));
}
