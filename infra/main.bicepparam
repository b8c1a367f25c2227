// A development environment, and what azd deploys: it sets the variables of its
// own, and "azd env set NAME VALUE" sets the others. None is named KENNEL_: the app
// takes such variables for settings.
using './main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'dev')
param storageSku = 'Standard_LRS'
param maximumInstanceCount = 10
param secondaryLocation = readEnvironmentVariable('INFRA_SECONDARY_LOCATION', '')
param registryEnabled = readEnvironmentVariable('INFRA_REGISTRY', 'false') == 'true'
param workerImage = readEnvironmentVariable('INFRA_WORKER_IMAGE', '')
param workerExists = readEnvironmentVariable('INFRA_WORKER_EXISTS', 'false') == 'true'
param authClientId = readEnvironmentVariable('INFRA_AUTH_CLIENT_ID', '')
param alertEmail = readEnvironmentVariable('INFRA_ALERT_EMAIL', '')
param operatorId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'User')
