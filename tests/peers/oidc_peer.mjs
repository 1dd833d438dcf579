// An OpenID provider of another make, on loopback: prints its address, and ends with its input.
import http from "node:http";
import Provider from "oidc-provider";

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "bridle-test",
      token_endpoint_auth_method: "none",
      application_type: "native",
      redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      response_types: ["code"],
    }],
    pkce: { required: () => true },
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    rotateRefreshToken: true,
    issueRefreshToken: async () => true,
    ttl: { AccessToken: 600, RefreshToken: 3600, DeviceCode: 600, Session: 600, Interaction: 600, Grant: 3600, IdToken: 600 },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
